"""Builds the package with Python alone; pip and others find it by pyproject.toml (PEP 517).

A wheel is a zip file of the modules, the .pth file and three small texts about them.
"""

import base64
import hashlib
import io
import pathlib
import tarfile
import tomllib
import zipfile

HERE = pathlib.Path(__file__).parent
INSTALLED = ("langbot_boxd.pth", "langbot_boxd/__init__.py", "langbot_boxd/__main__.py")
SOURCES = ("README.md", "backend.py", "pyproject.toml", *INSTALLED)
WHEEL = "Wheel-Version: 1.0\nGenerator: langbot-boxd\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def project():
    return tomllib.loads((HERE / "pyproject.toml").read_text())["project"]


def stem(about):
    return f"{about['name'].replace('-', '_')}-{about['version']}"


def metadata(about):
    head = {
        "Metadata-Version": "2.4",
        "Name": about["name"],
        "Version": about["version"],
        "Summary": about["description"],
        "License-Expression": about["license"],
        "Requires-Python": about["requires-python"],
        "Description-Content-Type": "text/markdown",
    }
    lines = "".join(f"{name}: {value}\n" for name, value in head.items())
    return f"{lines}\n{(HERE / about['readme']).read_text()}".encode()


def record(files, name):
    """The list of all files, which is how uninstalling knows them."""
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{name},,\n"]).encode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    about = project()
    info = f"{stem(about)}.dist-info"
    files = {name: (HERE / name).read_bytes() for name in INSTALLED}
    files[f"{info}/METADATA"] = metadata(about)
    files[f"{info}/WHEEL"] = WHEEL.encode()
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD")
    name = f"{stem(about)}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, name), "w") as wheel:
        for path, data in files.items():
            # Always the same date: the same sources give the same wheel.
            entry = zipfile.ZipInfo(path)
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    about = project()
    files = {name: (HERE / name).read_bytes() for name in SOURCES}
    files["PKG-INFO"] = metadata(about)
    name = f"{stem(about)}.tar.gz"
    with tarfile.open(pathlib.Path(sdist_directory, name), "w:gz") as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(f"{stem(about)}/{path}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return name
