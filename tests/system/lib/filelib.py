"""File actions in tests: boxd in each mode, a client in each codec, and short names for the
actions.
"""

import base64
import contextlib

import clientlib
import nativelib

ACKS_AHEAD = 16
CODECS = {"json": clientlib.Web, "msgpack": clientlib.MsgpackWeb}


class Files:
    """The file actions of one session on one client. `tell` is the text of an error."""

    def __init__(self, client, session="s", **spec):
        self.client, self.session, self.spec = client, session, spec
        self.binary = isinstance(client, clientlib.MsgpackWeb)

    def data(self, path, **members):
        return {"session_id": self.session, "path": path, **members}

    def bytes_in(self, data):
        """The bytes in the form of this codec."""
        if self.binary:
            return {"data": data}
        return {"data_base64": base64.b64encode(data).decode()}

    def bytes_of(self, answer):
        if "data_base64" in answer:
            assert not self.binary
            return base64.b64decode(answer["data_base64"])
        data = answer["data"]
        assert isinstance(data, bytes) == self.binary
        return data if self.binary else data.encode()

    def read(self, path, **members):
        return self.bytes_of(self.client.ask("box_file_read", self.data(path, **members), 60))

    def write(self, path, data, **members):
        given = self.data(path, **self.bytes_in(data), **members)
        return self.client.ask("box_file_write", given, 60)

    def list(self, path, **members):
        return self.client.ask("box_file_list", self.data(path, **members), 60)

    def names(self, path, **members):
        return [entry["name"] for entry in self.list(path, **members)["entries"]]

    def stat(self, path):
        return self.client.ask("box_file_stat", self.data(path))

    def mkdir(self, path, **members):
        assert self.client.ask("box_file_mkdir", self.data(path, **members)) == {}

    def remove(self, path, **members):
        assert self.client.ask("box_file_remove", self.data(path, **members), 70) == {}

    def move(self, old, new, **members):
        given = {"session_id": self.session, "from": old, "to": new, **members}
        assert self.client.ask("box_file_move", given) == {}

    def tell(self, action, path, **members):
        return self.client.fail(f"box_file_{action}", self.data(path, **members), 70)

    def sh(self, cmd, **spec):
        """Runs a command in the session, which must succeed; returns its stdout."""
        result = self.client.exec(cmd, self.session, 100, **self.spec, **spec)
        assert result["exit_code"] == 0, result
        return result["stdout"]

    def watch(self, path, flow=False, **members):
        return Watch(self, path, flow, members)


class Watch:
    """A stream of events. `flow` acknowledges each; call `take` to receive them."""

    def __init__(self, files, path, flow, members):
        self.client, self.flow, self.acks = files.client, flow, []
        more = {"stream_flow_control": 1} if flow else {}
        self.seq = self.client.start("box_file_watch", files.data(path, **members), **more)
        assert self.take() == {"event": "started"}

    def take(self, seconds=15.0):
        """The data of the next event; None at the end."""
        part = self.client.wait(self.seq, seconds)
        assert part["code"] == 0, part
        if part["chunk_status"] == "end":
            assert part["data"] == {}
            return None
        if self.flow:
            given = {"seq_id": self.seq, "index": part["stream_index"]}
            self.acks.append(self.client.start("__stream_ack", given))
            self.accepted(ACKS_AHEAD)
        return part["data"]

    def accepted(self, left=0):
        """Waits for the answers to acknowledgements, except for so many that may still be missing."""
        while len(self.acks) > left:
            answer = self.client.wait(self.acks.pop(0))
            assert clientlib.success(answer) == {"accepted": True}

    def until(self, path, event=None):
        """All events up to the one of this path."""
        found = []
        while not (found and found[-1].get("path") == path and event in (None, found[-1]["event"])):
            found.append(self.take())
        return found

    def cancel(self):
        self.accepted()
        assert self.client.ask("__cancel_action", {"seq_id": self.seq}) == {"cancelled": True}


@contextlib.contextmanager
def started(mode, operator=None):
    """A boxd of this mode, with native boxes, and the place it runs in."""
    with nativelib.Place(mode, operator) as place, place.start() as boxd:
        with boxd.web() as client:
            client.init(backend="local")
        yield boxd, place


@contextlib.contextmanager
def dialled(boxd, codec="json", session="s", **spec):
    """The files of a new session, which is deleted at the end."""
    with CODECS[codec](boxd) as client:
        client.ask("box_create_session", {"session_id": session, **spec})
        yield Files(client, session, **spec)
        client.ask("box_delete_session", {"session_id": session})
