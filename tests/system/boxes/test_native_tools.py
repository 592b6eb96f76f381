"""Common tools under the default seccomp filter: each does its usual work in a native box.

All run at once, each in a session of its own. A tool that this host lacks is skipped.
"""

import functools
import io
import json
import os
import shutil
import tarfile
import zipfile

import pytest

import nativelib

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
GO_PATH = f"/usr/local/go/bin:{PATH}"
TIMEOUT_SECONDS = 170

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("nothing_left"),
]

C_PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
static void *run(void *arg) { *(int *)arg += 41; return arg; }
int main(void) {
	pthread_t thread; int value = 1;
	pthread_create(&thread, NULL, run, &value);
	pthread_join(thread, NULL);
	printf("%d\n", value);
}
"""

JAVA_PROGRAM = r"""
import java.util.stream.*;
public class Sum {
	public static void main(String[] args) throws Exception {
		Thread thread = new Thread(() -> System.out.println("thread"));
		thread.start();
		thread.join();
		System.out.println(IntStream.rangeClosed(1, 100).parallel().sum());
	}
}
"""

# Options that servers and clients set, and refused ones that they must cope with.
SOCKET_PROGRAM = r"""
import asyncio, fcntl, socket, struct, tempfile
async def echo(reader, writer):
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(echo, "localhost", 0, reuse_port=True)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sock = writer.get_extra_info("socket")
    for level, option in ((1, 7), (1, 8), (6, 1), (6, 4), (6, 5), (6, 6), (6, 18), (0, 1)):
        sock.setsockopt(level, option, 60)
    sock.setsockopt(1, 13, struct.pack("ii", 1, 1))
    writer.write(b"echo\n")
    print((await reader.readline()).decode().strip())
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        asyncio.DatagramProtocol, ("127.0.0.1", 0), allow_broadcast=True)
    transport.close()
    server.close()
asyncio.run(main())
with socket.socket(socket.AF_INET6) as both:
    both.setsockopt(41, 26, 0)
print(socket.getaddrinfo("localhost", 80, flags=socket.AI_ADDRCONFIG, type=1)[0][1].name)
with tempfile.TemporaryFile() as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
try:
    socket.socket().setsockopt(6, 31, b"tls")
except OSError as error:
    print(error.strerror)
"""

# name: (the command that must be there, the script, what it prints, further members of the spec)
TOOLS = {
    "sh": (
        "sh",
        "trap 'echo bye' EXIT; f() { echo \"$1\" | tr a-z A-Z; }; f abc; (exit 3) || echo $?;"
        "cat <<EOF\n$((6 * 7))\nEOF\n",
        "ABC\n3\n42\nbye",
        {},
    ),
    "bash": (
        "bash",
        "bash <<'EOF'\n"
        "a=(1 2 3); echo ${#a[@]}; diff <(echo a) <(echo a) && echo same\n"
        "coproc cat; echo hi >&${COPROC[1]}; read -r x <&${COPROC[0]}; echo $x\n"
        "shopt -s globstar; mkdir -p d/e; touch d/e/f; echo **/f; kill %1\n"
        "EOF\n",
        "3\nsame\nhi\nd/e/f",
        {},
    ),
    "coreutils": (
        "sha256sum",
        "set -e; seq 100 >a; cp -a a b; mv b c; ln a l; ln -s a s; touch -d @86400 a\n"
        "stat -c '%Y %h' a; sha256sum <c | cut -c1-8; sort -rn c | head -n 1; du -k c | cut -f1\n"
        "dd if=/dev/urandom of=r bs=4096 count=4 status=none; truncate -s 1G t; stat -c %s r t\n"
        "timeout 0.1 sleep 5 || echo $?; nproc >/dev/null; df . >/dev/null; mktemp -d >/dev/null\n"
        "install -D -m 700 a x/y/z; chmod g+w x; rm -rf x; mkfifo p; (echo q >p &) ; cat p\n"
        "test -t 0 || readlink -f s",
        "86400 2\n93d4e5c7\n100\n4\n16384\n1073741824\n124\nq\n/workspace/a",
        {},
    ),
    "git": (
        "git",
        "set -e; git init -q -b main one; cd one\n"
        "git config user.email a@b; git config user.name A\n"
        "echo x >f; git add f; git commit -q -m first; cd ..; git clone -q one two 2>&1\n"
        "git clone -q file:///workspace/one three; cd two; git log --format='%s %an'; git gc -q\n"
        "git fsck 2>/dev/null; git status --short; cat ../three/f",
        "first A\nx",
        {},
    ),
    "gcc": (
        "gcc",
        f"cat >p.c <<'EOF'{C_PROGRAM}EOF\ngcc -O2 -pthread p.c -o p && ./p\n",
        "42",
        {},
    ),
    "make": (
        "make",
        "printf 'all: a b\\n\\t@cat a b\\na b:\\n\\t@echo $@ >$@\\n' >Makefile; make -s -j2",
        "a\nb",
        {},
    ),
    "python": (
        "/usr/bin/python3",
        "/usr/bin/python3 - <<'EOF'\n"
        "import asyncio, multiprocessing, sqlite3, ssl, subprocess, tempfile, threading\n"
        "def square(n): return n * n\n"
        "async def run():\n"
        "    child = await asyncio.create_subprocess_exec('echo', 'child', stdout=-1)\n"
        "    return (await child.communicate())[0].decode().strip()\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    print(pool.map(square, range(4)))\n"
        "print(asyncio.run(run()), subprocess.check_output(['echo', 'x'], text=True), end='')\n"
        "EOF\n",
        "[0, 1, 4, 9]\nchild x",
        {},
    ),
    "venv and pip": (
        "/usr/bin/python3",
        "set -e; /usr/bin/python3 -m venv v; . v/bin/activate\n"
        "pip install -q --no-index --disable-pip-version-check /data/boxed-1.0-py3-none-any.whl\n"
        "python -c 'import boxed; print(boxed.WORD)'; boxed; pip uninstall -q -y boxed\n"
        "python -c 'import boxed' 2>/dev/null || echo gone",
        "from a wheel\nfrom a script\ngone",
        {},
    ),
    "uv": (
        "uv",
        "set -e; uv venv -q --offline --python /usr/bin/python3 v; . v/bin/activate\n"
        "uv pip install -q --offline --no-index /data/boxed-1.0-py3-none-any.whl\n"
        "python -c 'import boxed; print(boxed.WORD)'",
        "from a wheel",
        {},
    ),
    "node": (
        "node",
        "node -e \"const {Worker} = require('worker_threads'); const {execSync} = "
        "require('child_process'); const w = new Worker('require(\\\"worker_threads\\\")"
        ".parentPort.postMessage(6 * 7)', {eval: true}); w.on('message', m => { console.log(m); "
        "console.log(execSync('echo child').toString().trim()); })\"",
        "42\nchild",
        {"memory_mb": 1024},
    ),
    "npm": (
        "npm",
        "set -e; npm init -y >/dev/null\n"
        "npm install --offline --no-audit --no-fund --no-update-notifier --silent /data/boxed.tgz\n"
        "node -e \"console.log(require('boxed'))\"; npx --offline boxed",
        "from a tarball\nfrom a bin",
        {"memory_mb": 1024},
    ),
    "go": (
        "/usr/local/go/bin/go",
        "set -e; go mod init example.test/m 2>/dev/null\n"
        "printf 'package main\\nfunc main() { c := make(chan int); go func() { c <- 42 }(); "
        "println(<-c) }\\n' >m.go\n"
        "go build -o m .; ./m 2>&1",
        "42",
        {
            "memory_mb": 2048,
            "pids_limit": 512,
            "cpus": 2.0,
            "env": {"PATH": GO_PATH, "GOTOOLCHAIN": "local", "GOFLAGS": "-p=2"},
        },
    ),
    "java": (
        "javac",
        f"set -e; cat >Sum.java <<'EOF'{JAVA_PROGRAM}EOF\njavac Sum.java; java -cp . Sum",
        "thread\n5050",
        {"memory_mb": 2048, "pids_limit": 512, "cpus": 2.0},
    ),
    "sqlite3": (
        "sqlite3",
        "sqlite3 db 'pragma journal_mode=wal; create table t (n); insert into t values (1), (41);"
        " select sum(n) from t;'; sqlite3 db 'select count(*) from t'",
        "wal\n42\n2",
        {},
    ),
    "tmux": (
        "tmux",
        "set -e; tmux -f /dev/null new-session -d -s s -x 80 -y 24 'tty; read line; echo $line"
        " >/tmp/said'\n"
        "tmux send-keys -t s hello Enter\n"
        "until [ -s /tmp/said ]; do sleep 0.05; done; cat /tmp/said",
        "hello",
        {"env": {"TERM": "xterm"}},
    ),
    "sockets": (
        "python3",
        f"python3 - <<'EOF'{SOCKET_PROGRAM}EOF\n",
        "echo\nSOCK_STREAM\nProtocol not available",
        {},
    ),
    "curl": (
        "curl",
        "set -e; mkdir -p web; echo served >web/f; python3 -u -m http.server -d web -b 127.0.0.1 0 "
        ">port 2>/dev/null & server=$!\n"
        "until grep -q port port; do sleep 0.05; done\n"
        "p=$(sed -E 's/.* port ([0-9]+).*/\\1/' port)\n"
        "curl -sS --keepalive-time 5 --tcp-nodelay http://127.0.0.1:$p/f; kill $server",
        "served",
        {},
    ),
    "node sockets": (
        "node",
        "node -e \"const http = require('http');"
        " const s = http.createServer((q, r) => r.end('ok'));"
        " s.keepAliveTimeout = 1; s.listen(0, async () => { const r = await fetch("
        "'http://127.0.0.1:' + s.address().port); console.log(await r.text());"
        " s.closeAllConnections(); s.close() })\"",
        "ok",
        {"memory_mb": 1024},
    ),
    "man": (
        "man",
        "printf '.TH X 1\\n.SH NAME\\nx \\\\- a page\\n' >x.1\n"
        "MANPAGER=cat man -l ./x.1 | grep -c page",
        "1",
        {},
    ),
    "perl": (
        "perl",
        "perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_STREAM, 0); if (!fork) "
        '{ syswrite A, "child\\n"; exit 3 } print scalar <B>; wait; print $? >> 8, "\\n"\'',
        "child\n3",
        {},
    ),
}

# The filter is the same for an ordinary user's boxes: the slowest ones run once.
LONGEST = ("npm", "go", "java")
CASES = [
    (mode, name)
    for mode in nativelib.MODES
    for name in TOOLS
    if mode == "root" or name not in LONGEST
]


def make_wheel(path):
    files = {
        "boxed.py": "WORD = 'from a wheel'\ndef main():\n    print('from a script')\n",
        "boxed-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: boxed\nVersion: 1.0\n",
        "boxed-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
        "boxed-1.0.dist-info/entry_points.txt": "[console_scripts]\nboxed = boxed:main\n",
    }
    names = [*files, "boxed-1.0.dist-info/RECORD"]
    files[names[-1]] = "".join(f"{name},,\n" for name in names)
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


def make_tarball(path):
    described = {"name": "boxed", "version": "1.0.0", "main": "i.js", "bin": {"boxed": "b.js"}}
    files = {
        "package/package.json": json.dumps(described),
        "package/i.js": "module.exports = 'from a tarball'\n",
        "package/b.js": "#!/usr/bin/env node\nconsole.log('from a bin')\n",
    }
    with tarfile.open(path, "w:gz") as tarball:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            entry.mode = 0o755
            tarball.addfile(entry, io.BytesIO(text.encode()))


def is_here(tool):
    found = tool if os.path.isabs(tool) and os.access(tool, os.X_OK) else None
    found = found or shutil.which(tool, path=PATH)
    return found is not None and os.path.realpath(found).startswith("/usr/")


@pytest.fixture(scope="module")
def everything(nothing_left):
    """everything(mode) returns the output of each tool that this host has, or the error; run once."""
    return functools.cache(run_all)


def run_all(mode):
    with nativelib.Place(mode) as place:
        data = place.make("data")
        make_wheel(data / "boxed-1.0-py3-none-any.whl")
        make_tarball(data / "boxed.tgz")
        with nativelib.dialled(place) as client:
            started = {}
            for name in [name for wanted, name in CASES if wanted == mode]:
                tool, script, _, more = TOOLS[name]
                spec = {"cmd": script, "session_id": name, "timeout_sec": TIMEOUT_SECONDS}
                spec["extra_mounts"] = [{"host_path": str(data), "mount_path": "/data"}]
                if is_here(tool):
                    client.ask("box_create_session", {**spec, **more})
                    started[name] = client.start("box_exec", {**spec, **more})
            return {name: client.wait(seq, TIMEOUT_SECONDS) for name, seq in started.items()}


@pytest.mark.parametrize("mode, name", CASES)
def test_tool(everything, mode, name):
    tool, _, expected, _ = TOOLS[name]
    results = everything(mode)
    if name not in results:
        pytest.skip(f"not here, below /usr: {tool}")
    assert results[name]["code"] == 0, results[name]
    result = results[name]["data"]
    assert (result["exit_code"], result["stdout"]) == (0, expected), result
    assert result["end"] == {"reason": "exit", "signal": None}
