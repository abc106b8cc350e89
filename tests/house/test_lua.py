"""Stops the scripts from drifting: header against stub and replies, keys against Python, no globals, no stray words."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections import Counter
from enum import StrEnum
from importlib import import_module
from pathlib import Path

import pytest

from house.lua_globals import globals_of, lua
from house.tree import ROOT, lua_scripts, module_name, shipped_files
from mycelium.leases import scripts
from mycelium.leases.errors import ScriptError
from mycelium.leases.keys import Keyspace

SERVER = {"ARGV", "KEYS", "cjson", "redis"}
LANGUAGE = {"error", "ipairs", "math", "next", "pairs", "select", "string", "table", "tonumber", "tostring", "type"}
ALLOWED = SERVER | LANGUAGE | {"unpack"}
"""What a script may use: all of it exists in Redis, Valkey and fakeredis."""

READ = re.compile(
    "EXISTS|H?GET|H?MGET|HEXISTS|HGETALL|HKEYS|HLEN|HSCAN|INFO|LINDEX|LLEN|LRANGE|P?TTL|PUBLISH|SCAN|SCARD|SISMEMBER"
    "|SMEMBERS|STRLEN|TIME|TYPE|XINFO|XLEN|XRANGE|XREVRANGE|ZCARD|ZCOUNT|ZRANGE|ZRANGEBYSCORE|ZRANK|ZSCORE"
)
LIBRARIES = [path for path in shipped_files() if path.suffix == ".lua" and path.parent.name == "lib"]


class Word(StrEnum):
    """Replies of the made-up scripts in this file."""

    OK = "ok"
    LOST = "lost"


def place(path: Path) -> str:
    """The name of a script in the registry."""
    return f"{module_name(path.parents[1])}/{path.stem}"


def names(path: Path) -> str:
    """The name of a script in a test's name."""
    return path.relative_to(ROOT).as_posix()


def header_faults(text: str) -> list[str]:
    """What a script's header lacks."""
    header = scripts.read_header(text)
    found: list[str] = []
    if not re.fullmatch(r"[A-Z].*\.", header.summary) or not text.startswith(f"-- {header.summary}\n"):
        found.append("the first line is not one sentence")
    if not re.search(r"^-- WRITES", text, re.MULTILINE) or not header.replies:
        found.append("WRITES and REPLY are not both there")
    kinds = re.findall(r"\w+:(\w+)", " ".join(re.findall(r"^-- (?:ARGV|EACH\s+\w+:)(.*)", text, re.MULTILINE)))
    found += [f"{kind} is no type" for kind in kinds if kind not in {"int", "digits"}]
    return found


def reply_faults(text: str) -> list[str]:
    """Words that a script answers without saying so, and words that it announces and never answers."""
    header = scripts.read_header(text)
    main = re.sub(r"^local function .*?^end$", "", text, flags=re.MULTILINE | re.DOTALL)
    answered = set(re.findall(r"(?:\breturn|\breply =|\bword =)\s*\{?\s*'([a-z_]+)'", main))
    quoted = set(re.findall(r"'([a-z_]+)'", _code(scripts.assemble(header, text))))
    return sorted(answered - header.replies) + sorted(header.replies - quoted)


def write_faults(text: str) -> list[str]:
    """Keys that a script writes without saying so, and keys that it announces and never touches."""
    header = scripts.read_header(text)
    calls = re.findall(r"redis\.p?call\('([A-Z]+)',\s*(\w+)_key\(", _code(text))
    written = {key for command, key in calls if not READ.fullmatch(command)}
    touched = set(re.findall(r"\b(\w+)_key\(", _code(scripts.assemble(header, text))))
    return sorted(written - set(header.writes)) + sorted(set(header.writes) - touched)


def stubs() -> Counter[str]:
    """How many stubs each script has in the sources."""
    found: Counter[str] = Counter()
    for path in shipped_files():
        tree = ast.parse(path.read_text(encoding="utf-8")) if path.suffix == ".py" else ast.Module([], [])
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "scripted":
                package, name = node.args[:2]
                here = module_name(path).rpartition(".")[0]
                home = ast.literal_eval(package) if isinstance(package, ast.Constant) else here
                found[f"{home}/{ast.literal_eval(name)}"] += 1
    return found


def load_stubs() -> None:
    """Import all that may bind a script."""
    for floor in ("mycelium.leases", "mycelium.ledger"):
        for module in pkgutil.iter_modules(import_module(floor).__path__, f"{floor}."):
            import_module(module.name)


def test_every_script_has_one_stub_and_every_stub_a_script() -> None:
    load_stubs()
    files = sorted(place(path) for path in lua_scripts())
    assert sorted(stubs().elements()) == files
    assert sorted(name for name in scripts.REGISTRY if name.startswith("mycelium.")) == files


@pytest.mark.parametrize("path", lua_scripts(), ids=names)
def test_a_script_says_what_it_does(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert header_faults(text) == []
    assert reply_faults(text) == []
    assert write_faults(text) == []


@pytest.mark.parametrize("path", lua_scripts(), ids=names)
def test_a_script_compiles_and_has_no_globals(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = globals_of(scripts.assemble(scripts.read_header(text), text))
    assert found.assigned == set()
    assert found.read - ALLOWED == set()


@pytest.mark.parametrize("path", LIBRARIES, ids=names)
def test_a_part_begins_with_a_sentence_and_is_included(path: Path) -> None:
    assert re.match(r"-- [A-Z]", path.read_text(encoding="utf-8"))
    included = {name for script in lua_scripts() for name in scripts.read_header(script.read_text()).includes}
    assert path.stem in included


def test_keys_are_the_same_in_lua_and_python() -> None:
    text = (ROOT / "leases" / "lua" / "lib" / "keys.lua").read_text(encoding="utf-8")
    keyspace = Keyspace("house")
    in_lua = re.findall(r"^local function (\w+)_key\((\w*)\)", text, re.MULTILINE)
    in_python = {name for name, value in vars(Keyspace).items() if callable(value) and not name.startswith("_")}
    assert {name for name, _ in in_lua} == in_python
    for name, parameter in in_lua:
        given = ("an id",) if parameter else ()
        program = f"local tag = '{keyspace.tag}'\n{text}\nreturn {name}_key({str(given)[1:-2]})"
        assert lua().execute(program.encode()) == getattr(keyspace, name)(*given).encode()


def test_the_loader_refuses_a_stub_that_differs() -> None:
    header = scripts.read_header("-- Does.\n-- ARGV a b:int\n-- REPLY ok lost\n-- WRITES\n")

    def right(*, a: str, b: int) -> None: ...
    def wrong(*, a: str) -> None: ...

    scripts._check_stub("made-up", right, header, Word)
    with pytest.raises(ScriptError, match="the stub"):
        scripts._check_stub("made-up", wrong, header, Word)
    shorter = scripts.read_header("-- Does.\n-- ARGV a b:int\n-- REPLY ok\n-- WRITES\n")
    with pytest.raises(ScriptError, match="the header answers"):
        scripts._check_stub("made-up", right, shorter, Word)


def test_the_guards_see_each_kind_of_drift() -> None:
    head = "-- Does.\n-- ARGV a:int\n-- REPLY ok\n-- WRITES row\n"
    body = "if a == 1 then\n  redis.call('DEL', row_key(a))\nend\nreturn 'ok'\n"
    assert header_faults(head + body) == reply_faults(head + body) == write_faults(head + body) == []
    assert header_faults(head.replace("a:int", "a:number")) == ["number is no type"]
    assert header_faults(head.replace("Does.", "does")) == ["the first line is not one sentence"]
    assert header_faults(head.replace("-- WRITES row\n", "")) == ["WRITES and REPLY are not both there"]
    assert reply_faults(head + body.replace("'ok'", "'lost'")) == ["lost", "ok"]
    assert write_faults(head.replace("row", "meta") + body) == ["row", "meta"]
    program = "local function f() if false then typo() end; leaked = 1 end\nreturn tonumber(f())"
    assert globals_of(program).read == {"typo", "tonumber"}
    assert globals_of(program).assigned == {"leaked"}
    with pytest.raises(Exception, match="unexpected symbol"):
        globals_of("return return")


def _code(text: str) -> str:
    """A program without its comments."""
    return re.sub(r"--.*", "", text)
