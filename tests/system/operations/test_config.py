"""The operator's configuration file: errors and their messages, what a reload changes, and that
/readyz says what a new box would get.
"""

import json
import pathlib
import signal
import subprocess
import tempfile

import pytest

import boxdlib
import langbotlib
import nativelib
from boxdlib import wait_until

GOOD = "backend: local\n"


def check(tmp_path, text, variable=None):
    """Exit code and lines of --check-config; the log must be empty."""
    (tmp_path / "box.yaml").write_text(text)
    environment = {"PATH": "/usr/bin:/bin"} | ({"LANGBOT_BOX_CONFIG": variable} if variable else {})
    done = subprocess.run(
        [boxdlib.build() / "boxd", "--check-config", "--config", "box.yaml"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_a_good_file_is_one_line(tmp_path):
    assert check(tmp_path, GOOD) == (0, ["box.yaml: good"])
    assert check(tmp_path, "") == (0, ["box.yaml: good"])


# Mistakes and their messages.
WRONG = [
    ("session_tll_sec: 5\n", "1: session_tll_sec: unknown member; did you mean session_ttl_sec?"),
    (
        "allowed_mount_roots: [/x]\n",
        "1: allowed_mount_roots: unknown member; it belongs under local",
    ),
    (
        "local:\n  allowed_mount_root: [/x]\n",
        "2: local.allowed_mount_root: unknown member; did you mean allowed_mount_roots?",
    ),
    (
        "local:\n\n  allowed-mount-roots: []\n",
        "3: local.allowed-mount-roots: unknown member; did you mean allowed_mount_roots?",
    ),
    (
        "admission: {requird: true}\n",
        "1: admission.requird: unknown member; did you mean required?",
    ),
    ("admission:\n  cpus: 0\n", "2: admission.cpus: cpus must be greater than 0"),
    ("limits:\n  max_sessions: many\n", "2: limits.max_sessions must be an integer"),
    ("limits:\n  max_sessions: 5001\n", "2: limits.max_sessions must be between 0 and 5000"),
    ("backend: local\nbackend: krun\n", "2:1: backend is defined twice"),
    ("a: 1\nbox:\n  session_ttl_sec: x\n", "3: box.session_ttl_sec must be an integer"),
    ("box:\n  local:\n    rootf: /\n", "3: box.local.rootf: unknown member; did you mean rootfs?"),
    ("local: []\n", "1: local: must be a map of members"),
    ("box:\n", "1: box: must be a map of members"),
    ("limits:\n  max_pids:\n", "2: limits.max_pids must be an integer"),
    ("images:\n  py:3.12: 5\n", "2: images.py:3.12 is not a usable path"),
    ("images:\n  py:3.12: /nope\n", "2: images.py:3.12: /nope: No such file or directory"),
    (
        'allowed_origins: "*"\n',
        "1: allowed_origins: * is not an origin: scheme://host or scheme://host:port, "
        "each written out, or null",
    ),
    ("local:\n  rootfs: /nope\n", "2: local.rootfs: /nope: No such file or directory"),
    ("images:\n  py: /nope\n", "2: images.py: /nope: No such file or directory"),
    (
        "local:\n  rootfs: /proc\n",
        "2: local.rootfs: /proc: has no /bin/sh, which runs commands",
    ),
]


@pytest.mark.parametrize("text, said", WRONG, ids=[said.split(":")[1].strip() for _, said in WRONG])
def test_a_wrong_member_has_file_line_and_reason(tmp_path, text, said):
    code, lines = check(tmp_path, text)
    assert code == 78
    assert lines == [f"box.yaml:{said}", "box.yaml: refused: 1 error"]


def test_a_backend_that_there_is_not(tmp_path):
    code, lines = check(tmp_path, "backend: nosuch\n")
    assert code == 78
    assert lines[0].startswith("box.yaml:1: backend: no backend nosuch: it is one of local,")


def test_what_an_upgrade_of_langbot_brings_is_a_warning(tmp_path):
    code, lines = check(tmp_path, "box:\n  firecracker: {}\n  limits: {max_uploads: 1}\n")
    assert code == 0
    assert lines == [
        "box.yaml:2: box.firecracker: unknown member (a warning)",
        "box.yaml:3: box.limits.max_uploads: unknown member (a warning)",
        "box.yaml: good",
    ]
    # The same in a file for boxd alone.
    assert check(tmp_path, "firecracker: {}\n")[0] == 78


def test_members_beside_box_are_told(tmp_path):
    """Keys that belong under box, at the top level."""
    text = "box: {}\napi: {port: 1}\nallowed_mount_roots: []\nlocal: {}\nmax_sessions: 1\n"
    code, lines = check(tmp_path, text)
    assert code == 0
    assert lines == [
        f"box.yaml:{line}: {name}: not read beside box; it belongs under {section} (a warning)"
        for line, name, section in (
            (3, "allowed_mount_roots", "box.local"),
            (4, "local", "box"),
            (5, "max_sessions", "box.limits"),
        )
    ] + ["box.yaml: good"]


def test_folders_for_mounts_are_looked_at(tmp_path):
    """They may be created later, so these are warnings."""
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    text = "local:\n  host_root: folder\n  allowed_mount_roots: [/nope, file, /etc, folder]\n"
    code, lines = check(tmp_path, text)
    assert (code, lines[-1]) == (0, "box.yaml: good")
    said = [line.removeprefix("box.yaml:3: local.allowed_mount_roots: ") for line in lines[:-1]]
    assert said == [
        "/nope: No such file or directory (a warning)",
        f"{tmp_path}/file: not a folder (a warning)",
        "/etc: blocked for security: no box may mount it (a warning)",
    ]


def test_what_is_said_at_the_start_is_not_said_by_the_check(tmp_path):
    """Warnings of the start are not printed: there is only the verdict."""
    assert check(tmp_path, "unauthenticated: true\n") == (0, ["box.yaml: good"])


@pytest.mark.parametrize("text, why", [("{no", ": key expected"), ("[]", "")])
def test_a_variable_that_is_no_map(tmp_path, text, why):
    """The start ignores it, as the reference does; --check-config reports it."""
    code, lines = check(tmp_path, GOOD, text)
    assert code == 78
    assert lines == [
        "box.yaml: good",
        f"LANGBOT_BOX_CONFIG: ignored because it is not a JSON map{why}",
        "LANGBOT_BOX_CONFIG: refused: 1 error",
    ]
    environment = {"LANGBOT_BOX_CONFIG": text}
    with boxdlib.Boxd(env=environment) as boxd:
        assert "ignored because it is not a JSON map" in boxd.wait_event("config.warning")["why"]
        boxd.wait_event("serving")


def test_the_variables_backend_and_folders_are_judged(tmp_path):
    code, lines = check(tmp_path, GOOD, '{"backend": "nosuch", "local": {"host_root": "/nope"}}')
    assert code == 78
    assert lines[0] == "box.yaml: good"
    assert lines[1].startswith("LANGBOT_BOX_CONFIG: backend: no backend nosuch: it is one of ")
    assert lines[2:] == [
        "LANGBOT_BOX_CONFIG: local.host_root: /nope: No such file or directory (a warning)",
        "LANGBOT_BOX_CONFIG: refused: 1 error",
    ]


def test_the_variable_is_judged_as_langbots_section(tmp_path):
    code, lines = check(tmp_path, GOOD, '{"local": {"allowed_mount_root": []}, "new": 1}')
    assert code == 78
    assert lines == [
        "box.yaml: good",
        "LANGBOT_BOX_CONFIG: local.allowed_mount_root: unknown member; "
        "did you mean allowed_mount_roots?",
        "LANGBOT_BOX_CONFIG: new: unknown member (a warning)",
        "LANGBOT_BOX_CONFIG: refused: 1 error",
    ]


def test_langbots_own_template_is_good():
    """/tmp is among its mount roots, where boxd's own file may not be."""
    (template,) = langbotlib.LANGBOT.glob(
        "lib/python3*/site-packages/langbot/templates/config.yaml"
    )
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="box-config-") as folder:
        code, lines = check(pathlib.Path(folder), template.read_text())
    assert (code, lines[-1]) == (0, "box.yaml: good"), lines
    assert "unknown" not in "".join(lines)


def test_a_start_is_refused_with_each_error(tmp_path):
    (tmp_path / "box.yaml").write_text("bakcend: local\nlocal:\n  rootf: /x\n")
    done = subprocess.run(
        [boxdlib.build() / "boxd", "--ws-control-port", "0", "--config", "box.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 78
    assert "box.yaml:1: bakcend: unknown member; did you mean backend?" in done.stderr
    assert "box.yaml:3: local.rootf: unknown member; did you mean rootfs?" in done.stderr


def test_a_reload_is_whole_or_not_at_all(tmp_path):
    """A typo does not reset a limit to its default. What waits for a restart is named, also by a
    successor of box-rpc."""
    config = tmp_path / "box.yaml"
    config.write_text("backend: fake\nlimits: {max_sessions: 6}\n")
    with boxdlib.Boxd("--config", str(config)) as boxd, boxd.web() as client:
        client.ask("box_init", {})
        config.write_text("backend: fake\nlimits: {max_sesions: 7, max_output_bytes: 9999}\n")
        boxd.signal(signal.SIGHUP)
        why = boxd.wait_event("config.reload_refused")["why"]
        said = "box.yaml:2: limits.max_sesions: unknown member; did you mean max_sessions?"
        assert why.endswith(said)
        assert boxd.wait_event("config.unchanged")["errors"] == 1
        limits = client.ask("box_status")["limits"]
        assert (limits["max_sessions"], limits["max_output_bytes"]) == (6, 8388608)
        config.write_text("backend: fake\nimages: {a: /usr}\nlocal: {seccomp: strict}\n")
        boxd.signal(signal.SIGHUP)
        assert boxd.wait_event("config.needs_restart")["members"] == "images, local.seccomp"
        boxd.wait_event("config.reloaded")
        text = "boxd needs a restart for: images, local.seccomp"
        assert any(text in warning for warning in client.ask("box_status")["warnings"])
        config.write_text("backend: fake\nlocal: {host_root: /srv, allowed_mount_roots: []}\n")
        boxd.signal(signal.SIGHUP)
        members = boxd.wait_event("config.needs_restart", 2)["members"]
        assert members == "local.host_root, local.allowed_mount_roots"


def readyz(boxd):
    status, _, body = boxd.http("/readyz")
    return status, json.loads(body)


@pytest.mark.parametrize(
    "text, checks, why",
    [
        ("local: {rootfs: /nope}\n", {"backend_available": False}, "local.rootfs: /nope: "),
        ("backend: nosuch\n", {"backend_available": False}, "no backend nosuch: "),
        (
            "images: {py: /nope}\n",
            {"backend_available": True, "images": False},
            "image py: /nope: ",
        ),
    ],
)
def test_not_ready_with_the_reason(text, checks, why):
    with nativelib.Place("root", text) as place, place.start() as boxd:
        status, ready = readyz(boxd)
        assert status == 503 and ready["ready"] is False
        assert ready["checks"] == checks
        assert ready["error"].startswith(why)
        assert boxd.wait_event("not_ready")["why"].startswith(why)


def test_a_file_that_everyone_can_write(tmp_path):
    """At the start, and at a reload, where the old configuration stays."""
    path = tmp_path / "box.yaml"
    path.write_text("backend: fake\n")
    path.chmod(0o666)
    boxd = boxdlib.Boxd("--config", str(path), cwd=tmp_path)
    assert boxd.wait(20) == 2
    assert "can be written by everyone" in boxd.tail()
    path.chmod(0o644)
    with boxdlib.Boxd("--config", str(path), cwd=tmp_path) as boxd, boxd.web() as client:
        boxd.wait_served()
        path.write_text("unauthenticated: true\n")
        path.chmod(0o666)
        boxd.signal(signal.SIGHUP)
        boxdlib.wait_until(lambda: "can be written by everyone" in boxd.tail())
        assert client.ask("box_get_backend_info")["name"] == "fake"


def test_a_reload_of_an_empty_file(tmp_path):
    """An error without a line number."""
    path = tmp_path / "box.yaml"
    path.write_text("admission: {required: true}\n")
    with boxdlib.Boxd("--config", str(path), cwd=tmp_path) as boxd:
        boxd.wait_served()
        path.write_text("")
        boxd.signal(signal.SIGHUP)
        why = boxd.wait_event("config.reload_refused")["why"]
        assert "admission cannot be turned off" in why
        assert not boxd.events("worker.died")


def test_a_reload_that_lets_in_everyone_is_told(tmp_path):
    config = tmp_path / "box.yaml"
    config.write_text(GOOD)
    with boxdlib.Boxd("--config", str(config)) as boxd:
        boxd.wait_event("serving")
        config.write_text("unauthenticated: true\n")
        for count in (1, 2):
            boxd.signal(signal.SIGHUP)
            boxd.wait_event("config.reloaded", count)
        assert len(boxd.events("listening.unauthenticated")) == 1


def test_the_log_names_the_failed_checks_of_admission(tmp_path):
    config = tmp_path / "box.yaml"
    config.write_text("admission: {required: true}\n")
    with boxdlib.Boxd("--config", str(config)) as boxd:
        why = boxd.wait_event("not_ready")["why"]
        assert "failed checks: " in why and "cgroup_v2" in why


def test_a_root_that_is_emptied_is_seen(tmp_path):
    """And that its /bin/sh is back."""
    with nativelib.Place("root", "") as place:
        root = place.make("root", "bin")
        (root / "sh").write_bytes(b"#!")
        (root / "sh").chmod(0o755)
        place.config.write_text(f"local: {{rootfs: {root.parent}}}\n")
        with place.start() as boxd:
            assert readyz(boxd)[0] == 200
            (root / "sh").rename(root / "hs")
            wait_until(lambda: readyz(boxd)[0] == 503, 10)
            assert "has no /bin/sh any more" in readyz(boxd)[1]["error"]
            (root / "hs").rename(root / "sh")
            wait_until(lambda: readyz(boxd)[0] == 200, 10)
            boxd.wait_event("ready")
