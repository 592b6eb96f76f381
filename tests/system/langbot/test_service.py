"""The service of libbox against a real runtime: profiles, session ids, folders, quotas, output,
errors and states, over both transports, as root and as an ordinary user.

Each case drives `service_driver` (tests/drivers/service_driver.c), a C program on libbox.
"""

import contextlib
import itertools
import json
import pathlib
import re
import socket
import subprocess

import boxdlib
import clientlib
import nativelib
import pytest
import quotalib

CARRIERS = ("stdio", "websocket")
EVERYONE = list(itertools.product(CARRIERS, nativelib.MODES))
QUERY = {"query_id": 7, "launcher_type": "group", "launcher_id": "g1", "sender_id": "u1"}


class Play:
    """service_driver as a child: each call sends one request and returns its result."""

    def __init__(self, place, env=None):
        self.place = place
        program = place.programs / "service_driver"
        if not program.exists():
            source = boxdlib.build(place.build) / "tests" / "drivers" / "service_driver"
            subprocess.run(["cp", "--", str(source), str(program)], check=True)
        self.log = place.folder / "play.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*place.before, str(program)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=place.work,
                env=place.environment(**(env or {})),
            )

    def __enter__(self):
        return self

    def __exit__(self, kind, *ignored):
        self.process.stdin.close()
        try:
            code = self.process.wait(20)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        if kind is None:
            log = self.log.read_text(errors="replace")
            assert code == 0, log[-3000:]
            assert "Sanitizer" not in log and "runtime error:" not in log, log[-3000:]

    def order(self, op, **members):
        self.process.stdin.write(json.dumps({"op": op, **members}).encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, self.log.read_text(errors="replace")[-3000:]
        return json.loads(answer)

    def gave(self, op, **members):
        answer = self.order(op, **members)
        assert answer is not None and "gave" in answer, answer
        return answer["gave"]

    def raised(self, op, **members):
        answer = self.order(op, **members)
        assert answer is not None and "raised" in answer, answer
        return answer["raised"]

    def run(self, cmd, query=QUERY, **members):
        spec = {"cmd": cmd, **members.pop("spec", {})}
        return self.gave("exec", spec=spec, query=query, **members)

    def refused(self, cmd="true", query=QUERY, **members):
        spec = {"cmd": cmd, **members.pop("spec", {})}
        return self.raised("exec", spec=spec, query=query, **members)["message"]

    def sessions(self):
        listed = self.gave("call", action="box_get_sessions")["sessions"]
        return {one["session_id"]: one for one in listed}


class World:
    """A place, a runtime where one is connected to, and services that use it."""

    def __init__(self, carrier, mode):
        self.carrier = carrier
        self.stack = contextlib.ExitStack()
        with self.stack:
            self.place = self.make(mode)
            self.root = self.place.make("root")
            self.boxd = None
            if carrier == "websocket":
                self.boxd = self.stack.enter_context(self.start())
            self.stack = self.stack.pop_all()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.stack.close()

    def make(self, mode):
        """A place of its own; images of quotas stay mounted until they are unmounted."""
        place = self.stack.enter_context(nativelib.Place(mode))
        self.stack.callback(quotalib.release, place.folder)
        return place

    def start(self, *args):
        return self.place.start(*args, token=clientlib.TOKEN)

    def config(self, **local):
        return {
            "backend": "local",
            "local": {"host_root": str(self.root), "profile": "offline", **local},
        }

    def way(self):
        if self.carrier == "stdio":
            boxd = str(self.place.programs / "boxd")
            return {"spawn": True, "boxd": boxd, "file": str(self.place.config)}
        return {
            "endpoint": self.boxd.url,
            "instance": clientlib.INSTANCE,
            "token": clientlib.TOKEN,
        }

    @contextlib.contextmanager
    def service(self, config=None, up=True, **options):
        with Play(self.place) as play:
            wanted = {**self.way(), **options}
            play.opened = play.gave("open", config=config or self.config(), **wanted)
            if up:
                play.gave("wait_up")
            yield play

    def refuses(self, config, **options):
        with Play(self.place) as play:
            return play.raised("open", config=config, **{**self.way(), **options})["message"]


@pytest.fixture(params=EVERYONE, ids=nativelib.names(EVERYONE))
def world(request):
    with nativelib.nothing_left(), World(*request.param) as made:
        yield made


# -- profiles


def test_a_profile_fills_in_and_locks(world):
    with world.service(world.config(profile="offline_readonly")) as play:
        asked = {"network": "on", "host_path_mode": "rw", "memory_mb": 64}
        result = play.run("touch x; ls -A; cat /sys/class/net/*/address", spec=asked)
        assert not (world.root / "default" / "x").exists()
        assert "Read-only" in result["stderr"]
        assert result["notes"] == [
            "network on is ignored: profile offline_readonly locks it to off",
            "host_path_mode rw is ignored: profile offline_readonly locks it to ro",
        ]
        (info,) = play.sessions().values()
        assert (info["network"], info["host_path_mode"]) == ("off", "ro")
        assert (info["cpus"], info["memory_mb"], info["pids_limit"]) == (0.5, 64, 64)
        assert info["read_only_rootfs"] is True


def test_the_operators_own_profile(world):
    own = {"tiny": {"base": "offline_readonly", "memory_mb": "96", "locked": ["memory_mb"]}}
    with world.service(world.config(profile="tiny", profiles=own, image="mine")) as play:
        result = play.run("true", spec={"memory_mb": 4096, "host_path_mode": "rw"})
        assert result["notes"] == ["memory_mb 4096 is ignored: profile tiny locks it to 96"]
        (info,) = play.sessions().values()
        assert (info["memory_mb"], info["image"], info["host_path_mode"]) == (96, "mine", "rw")
        # Another profile for a single run, in a box of its own.
        play.run("true", profile="network_extended", spec={"network": "off", "session_id": "o"})
        assert play.sessions()["o"]["memory_mb"] == 1024


def test_the_timeout_is_cut_in_every_form(world):
    config = world.config(profile="quick", profiles={"quick": {"max_timeout_sec": 1}})
    says = ["timeout_sec 20 is reduced to 1, the limit of profile quick"]
    with world.service(config) as play:
        forms = [20, "20", " 20 ", 20.0, "20.0"]
        runs = [
            {"spec": {"cmd": "sleep 30", "timeout_sec": form, "session_id": f"s{at}"}}
            for at, form in enumerate(forms)
        ]
        answers = play.gave("many", runs=runs)
        for answer in answers:
            assert answer["gave"]["status"] == "timed_out", answer
            assert answer["gave"]["duration_ms"] < 5000 and not answer["gave"]["ok"]
            assert answer["gave"]["notes"] == says
        assert "timeout_sec" in play.refused(spec={"timeout_sec": "soon"})


def test_an_unknown_profile_lists_the_known(world):
    known = "default, mine, network_basic, network_extended, offline, offline_readonly"
    says = f"unknown box profile 'nope', available profiles: {known}"
    assert world.refuses(world.config(profile="nope", profiles={"mine": {}})) == says
    with world.service(world.config(profiles={"mine": {}}), up=False) as play:
        play.gave("wait_up")
        assert play.refused(profile="nope") == says
        assert play.sessions() == {}


# -- session ids


def test_session_ids_come_from_templates(world):
    def named(play, **members):
        return play.run("true", **members)["session_id"]

    with world.service(world.config()) as play:
        assert named(play) == "group_g1"
        assert named(play, template="{sender_id}") == "u1"
        assert named(play, template="global") == "global"
        assert named(play, template="{global}") == "global"
        assert named(play, spec={"session_id": "mine"}) == "mine"
        assert named(play, query={"query_id": 7}) == "7"
        # One box per conversation: the second command sees the files of the first.
        play.run("echo once > /tmp/seen")
        assert play.run("cat /tmp/seen")["stdout"] == "once"
        assert play.run("cat /tmp/seen", query={**QUERY, "launcher_id": "g2"})["exit_code"] == 1
        strange = named(play, template="{sender_id}", query={**QUERY, "sender_id": "a/b ü"})
        assert re.fullmatch(r"a-b-[0-9a-f]{12}", strange)
        assert strange in play.sessions()
        assert "unknown attribute {who}, known are launcher_type" in play.refused(template="{who}")
        assert "nor a query_id" in play.refused(query={})


def test_a_forced_template_overrides(world):
    forced = {"forced_session_template": "all-{launcher_type}"}
    with world.service(world.config(session_template="{query_id}", **forced)) as play:
        result = play.run("true", template="{sender_id}", spec={"session_id": "mine"})
        assert result["session_id"] == "all-group"
        assert result["notes"] == [
            "session_id mine is ignored: the operator's template gives all-group"
        ]
    with world.service(world.config(session_template="{query_id}")) as play:
        assert play.run("true")["session_id"] == "7"


# -- folders


def test_the_default_workspace_is_made_at_start(world):
    folder = world.root / "default"
    with world.service(world.config(), up=False) as play:
        assert play.opened["default_workspace"] == str(folder)
        # With a child, the service creates the folder; else the runtime does when it gets the path.
        assert folder.is_dir() == (world.carrier == "stdio")
        play.gave("wait_up")
        assert folder.is_dir()
        play.run("echo here > file")
        assert (folder / "file").read_text() == "here\n"


def test_folders_outside_of_the_roots_are_refused(world):
    outside = world.place.make("outside")
    inside = world.place.make("root", "inside")
    (world.root / "link").symlink_to(outside)
    config = world.config(allowed_mount_roots=[str(world.root)])
    ours = f"host_path is outside allowed_mount_roots: {world.root}"
    with world.service(config) as play:
        assert play.run("pwd", spec={"host_path": str(inside)})["ok"]
        play.gave("call", action="box_delete_session", data={"session_id": "group_g1"})
        # A child is not even asked; a connected runtime decides by itself.
        says = play.refused(spec={"host_path": str(outside)})
        assert (says == ours) == (world.carrier == "stdio")
        for path in (world.root / "link", "/etc"):
            assert play.refused(spec={"host_path": str(path)})
        mount = {"host_path": str(outside), "mount_path": "/mnt/x"}
        says = play.refused(spec={"extra_mounts": [mount]})
        assert (says == ours) == (world.carrier == "stdio")
        assert play.sessions() == {}
    with world.service(config, shares=1) as play:
        assert play.refused(spec={"host_path": str(outside)}) == ours
        assert "existing directory" in play.refused(spec={"host_path": f"{inside}/none"})
    # A connection made by the caller may lead anywhere.
    with world.service(config, adopt=True) as play:
        play.gave("call", action="box_init", data=config)
        says = play.refused(spec={"host_path": str(outside)})
        assert "outside" in says and says != ours
    config["local"]["default_workspace"] = "/var/box-none"
    says = world.refuses(config, shares=1)
    assert says.startswith("box.local.default_workspace is outside allowed_mount_roots")
    assert not pathlib.Path("/var/box-none").exists()


# -- the quota


def test_the_quota_before_and_after(world):
    # A sparse file has its size without blocks, which a hard quota would not count.
    folder = world.root / "default"
    with world.service(world.config(workspace_quota_mb="1")) as play:
        assert play.run("truncate -s 1048576 file")["ok"]
        says = play.refused("truncate -s 1048577 file")
        assert says.startswith("workspace quota exceeded after execution: used=1048577 bytes ")
        assert f"host_path={folder} session_id=group_g1" in says
        assert play.sessions() == {}  # it was cleaned up
        says = play.refused("touch ran")
        assert says.startswith("workspace quota exceeded before execution: ")
        assert play.sessions() == {} and not (folder / "ran").exists()
        (folder / "file").unlink()
        # Links are not followed.
        assert play.run("ln -s /usr usr; ln -s . loop")["ok"]
        play.run("truncate -s 2M file", spec={"workspace_quota_mb": 0, "session_id": "free"})
        (folder / "file").unlink()
    kinds = ["after", "before"]
    config = {**world.config(workspace_quota_mb=1), "limits": {"max_workspace_entries": 20}}
    with world.service(config) as play:
        says = [play.refused("mkdir -p d; touch d/$(seq -s ' d/' 30)") for _ in kinds]
        for kind, text in zip(kinds, says):
            assert text.startswith(f"workspace entry limit exceeded {kind} execution: entries>20 ")
        assert len(play.gave("errors")) == 2


def test_what_cannot_be_measured_is_no_free_room(world):
    if world.place.mode != "rootless":
        pytest.skip("root can read everything")
    with world.service(world.config(workspace_quota_mb=1)) as play:
        script = "mkdir hidden; touch hidden/x; chmod 0 hidden"
        if world.carrier == "websocket":  # what is not visible here is checked by the runtime
            assert play.run(script)["ok"] and play.run("true")["ok"]
        else:
            says = play.refused(script)
            assert says == "workspace quota cannot be checked: hidden: Permission denied"
            assert play.sessions() == {} and play.refused() == says
    (world.root / "default" / "hidden").chmod(0o755)


# -- output


def test_long_output_keeps_head_and_tail(world):
    with world.service(world.config(output_chars=100)) as play:
        result = play.run("seq 1000; seq 2000 2999 >&2")
        assert result["stdout_truncated"] and result["stderr_truncated"]
        assert result["stdout"].startswith("1\n2\n") and result["stdout"].endswith("\n1000")
        assert result["stderr"].startswith("2000\n") and result["stderr"].endswith("\n2999")
        for name, whole in (("stdout", 3892), ("stderr", 4999)):
            said = re.search(r"\n\n\.\.\. \[(\d+) characters truncated\] \.\.\.\n\n", result[name])
            assert len(result[name]) == 100
            assert int(said[1]) == whole - (100 - len(said[0]))
        # Characters, not bytes, and none is split.
        result = play.run("printf '中%.0s' $(seq 500); echo short >&2")
        assert result["stdout_truncated"] and not result["stderr_truncated"]
        assert len(result["stdout"]) == 100 and result["stderr"] == "short"
        assert set(re.sub(r"\n\n\.\.\..*\n\n", "", result["stdout"])) == {"中"}
    with world.service() as play:
        assert len(play.run("seq 5000")["stdout"]) == 4000


# -- errors and states


def test_the_last_50_errors(world):
    with world.service() as play:
        for number in range(60):
            play.refused(template="{who}", query={"query_id": number})
        play.refused(spec={"timeout_sec": "soon"})
        errors = play.gave("errors")
        assert len(errors) == 50
        assert [one["query_id"] for one in errors] == [str(n) for n in range(11, 60)] + ["7"]
        assert {one["type"] for one in errors} == {"BoxValidationError"}
        times = [one["timestamp"] for one in errors]
        assert times == sorted(times) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", times[0])
        assert "unknown attribute" in errors[0]["message"]
        assert play.gave("status")["recent_error_count"] == 50


def test_disabled_means_nothing_is_started(world):
    config = {**world.config(), "enabled": "false"}
    with world.service(config, up=False) as play:
        assert play.opened["line"] is False
        pid = play.process.pid
        assert not pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
        says = "Box runtime is disabled in config (box.enabled = false)"
        for answer in (play.gave("status"), play.gave("status", **{"async": True})):
            assert answer == {
                "state": "disabled",
                "available": False,
                "enabled": False,
                "profile": "offline",
                "recent_error_count": 0,
                "connector_error": says,
            }
        assert play.refused() == says
        assert not any(name.startswith("socket:") for name in boxdlib.fd_names(pid).values())
        assert not (world.root / "default").exists()


def test_not_reachable(world):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        wrong = {"boxd": "/bin/false"}
        if world.carrier == "websocket":
            wrong = {"endpoint": f"ws://127.0.0.1:{taken.getsockname()[1]}"}
        with world.service(up=False, **wrong) as play:
            for members in ({}, {"async": True}):
                answer = play.gave("status", **members)
                assert (answer["state"], answer["available"]) == ("unreachable", False)
                assert answer["enabled"] is True and answer["connector_error"]
            assert play.refused().startswith("Box runtime is not available: ")
            assert play.gave("status")["recent_error_count"] == 1


def test_reachable_without_a_backend(world):
    with world.service({**world.config(), "backend": "docker"}) as play:
        for members in ({}, {"async": True}):
            answer = play.gave("status", **members)
            assert (answer["state"], answer["available"]) == ("no_backend", False), answer
            assert answer["backend"]["available"] is False and answer["connector_error"]
        answer = play.raised("exec", spec={"cmd": "true"}, query=QUERY)
        assert answer["type"] == "BoxBackendUnavailableError"


def test_well_and_back_again(world):
    with world.service() as play:
        for members in ({}, {"async": True}):
            answer = play.gave("status", **members)
            assert (answer["state"], answer["available"]) == ("well", True)
            assert "connector_error" not in answer
            assert answer["profile"] == "offline" and answer["backend"]["name"] == "local"
        end_runtime(world, play)
        assert "not available" in play.refused("true") or play.gave("status")["state"] != "well"
        if world.carrier == "websocket":
            port = world.boxd.url.rsplit(":", 1)[1].split("/")[0]
            world.boxd = world.stack.enter_context(world.start("--ws-control-port", port))
        play.gave("wait_up")
        assert play.gave("status")["state"] == "well"
        assert play.run("echo back")["stdout"] == "back"


def end_runtime(world, play):
    """The runtime ends while a service is connected."""
    if world.carrier == "websocket":
        world.boxd.stop()
        return
    pid = play.process.pid
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        subprocess.run(["kill", "-KILL", child], check=True)


# -- skills, and an event loop of the caller's


def test_skills_become_mounts(world):
    """Packages of one's own workspace, where a client keeps them; nothing else of such a store."""
    store = world.place.make("root", "skills")
    with world.service() as play:
        data = {"skill": {"name": "own", "instructions": "x"}}
        made = play.gave("call", action="box_create_skill", data=data)["skill"]["package_root"]
        package = store / "tenants" / pathlib.Path(made).parent.name / "hello"
        others = [store / "beside", store / "tenants" / "other" / "theirs"]
        for path in (package, *others):
            path.mkdir(parents=True)
        (package / "SKILL.md").write_text("---\nname: hello\n---\n")
        skills = [{"name": "hello", "package_root": str(package)}]
        skills.append({"name": "empty", "package_root": ""})
        gone = {"name": "gone", "package_root": str(package.parent / "gone")}
        script = "cat .skills/hello/SKILL.md; touch .skills/hello/x; ls .skills"
        result = play.run(script, skills={"skills": skills})
        assert "name: hello" in result["stdout"] and result["stdout"].endswith("\nhello")
        assert "Read-only" in result["stderr"] and not (package / "x").exists()
        assert any("empty" in note for note in result["notes"])
        # Packages that do not exist here are left out if the file system is shared; else the path
        # is the runtime's.
        told = play.gave("explain", spec={"cmd": "true"}, query=QUERY, skills=[*skills, gone])
        mounted = {mount["mount_path"].rsplit("/", 1)[1] for mount in told["spec"]["extra_mounts"]}
        assert mounted == ({"hello"} if world.carrier == "stdio" else {"hello", "gone"})
        assert any("gone" in note for note in told["notes"]) == (world.carrier == "stdio")
        assert "extra_mounts" not in play.gave("explain", spec={}, query=QUERY, skills=[])["spec"]
        for path in (*others, package.parent, store):
            theirs = [{"name": "theirs", "package_root": str(path)}]
            refusal = play.refused("true", spec={"session_id": "more"}, skills={"skills": theirs})
            assert "from the skill store a box gets packages of its own workspace only" in refusal


def test_many_at_once_in_a_loop_of_the_callers(world):
    with world.service(world.config(workspace_quota_mb=50)) as play:
        runs = [{"spec": {"cmd": f"echo {n}; sleep 0.2"}, "query": QUERY} for n in range(12)]
        runs.append({"spec": {"cmd": "true"}, "query": {}})
        answers = play.gave("many", runs=runs)
        assert [answer["gave"]["stdout"] for answer in answers[:-1]] == [str(n) for n in range(12)]
        assert "query_id" in answers[-1]["raised"]["message"]
        late = [{"spec": {"cmd": "echo a"}, "query": QUERY}]
        late += [{"spec": {"cmd": "sleep 1; touch late"}, "query": QUERY}] * 3
        answers = play.gave("many", runs=late, cancel=True)
        assert answers[0]["gave"]["stdout"] == "a" and answers[1:] == [None] * 3
        # More requests than can be in flight.
        waiting = {"cmd": "sleep 0.5", "pids_limit": 600, "session_id": "wide"}
        answers = play.gave("many", runs=[{"spec": waiting}] * 130)
        refused = [answer["raised"]["message"] for answer in answers if "raised" in answer]
        assert refused == ["128 runs are pending already"] * 2
        assert play.run("ls late")["exit_code"] != 0
        # A box can be created without a command, by the same rules.
        made = play.gave("exec", spec={"session_id": "kept"}, create_only=True)
        assert made["session_id"] == "kept" and made["notes"] == []
