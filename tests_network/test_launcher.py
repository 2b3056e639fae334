"""NVIDIA's compiler takes the kernels, without a device; what it made is kept, and made again where it was damaged."""

import os
from threading import Event
from types import SimpleNamespace

import pytest
import torch

from aptset.kernels import cuda as launcher
from aptset.kernels.cuda import CannotCompileError, Launcher

nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="the kernels are compiled where cuda-bindings is installed")
WIDE = {
    "COLUMNS": 1000,
    "ELEMENT": 0,
    "LANES": 32,
    "VECTOR": 4,
    "PIECE": 4,
    "BLOCK": 128,
    "HASHES": 1,
    "ASKS": 0,
    "RANKS": 0,
    "PLAIN": 1,
    "IN_TILES": 1,
}
SHORT = WIDE | {"COLUMNS": 10, "LANES": 1, "VECTOR": 2, "ASKS": 1, "RANKS": 1, "WHAT": 1}
HALF = WIDE | {"COLUMNS": 136, "ELEMENT": 2, "LANES": 8, "VECTOR": 8, "HASHES": 0, "ASKS": 1, "PLAIN": 0}
MIDDLE = WIDE | {"COLUMNS": 100, "LANES": 4, "VECTOR": 2}
SORTED = WIDE | {"EACH": 32, "RANKS": 1}
ORDERED = WIDE | {"ELEMENT": 1, "VECTOR": 1, "BLOCK": 256, "LENGTH": 1024, "TEAM": 256, "RANKS": 1}


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("APTSET_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)  # torch may know no device at all
    return Launcher(None, 1, "sm_90", None, nvrtc)


@pytest.mark.parametrize(
    ("name", "defines"),
    [
        ("scores.cu", WIDE),
        ("scores.cu", MIDDLE),
        ("scores.cu", WIDE | {"ELEMENT": 1, "VECTOR": 2, "IN_TILES": 0}),
        ("scores.cu", HALF | {"VECTOR": 2}),
        ("masks.cu", WIDE),
        ("masks.cu", WIDE | {"COLUMNS": 2000, "RANKS": 1, "PLAIN": 0, "IN_TILES": 0}),
        ("masks.cu", HALF),
        ("narrow.cu", SHORT),
        ("narrow.cu", SHORT | {"COLUMNS": 16, "ELEMENT": 1, "VECTOR": 2, "PIECE": 2, "WHAT": 0}),
        ("masks.cu", WIDE | {"LOGITS": 1}),
        ("masks.cu", HALF | {"LOGITS": 1}),
        ("narrow.cu", SHORT | {"LOGITS": 1}),
        ("logit_scores.cu", WIDE | {"LOGITS": 1, "FOLDS": 5}),
        ("logit_scores.cu", HALF | {"LOGITS": 1, "VECTOR": 2, "FOLDS": 5}),
        ("logit_scores.cu", WIDE | {"LOGITS": 1, "COLUMNS": 2000, "VECTOR": 1, "IN_TILES": 0}),
        ("copies.cu", {}),
        ("p_values.cu", {"COLUMNS": 10}),
        ("p_values.cu", {"COLUMNS": 10, "SAME_GROUP": 1}),
        ("softmax.cu", WIDE | {"TEAM": 128}),
        *(("ordered.cu", ORDERED | {"WHAT": what}) for what in range(6)),
        *(("sorted.cu", SORTED | {"WHAT": what}) for what in range(6)),
    ],
)
def test_kernels_compile(compiler, name, defines):
    assert compiler._compile(name, tuple(sorted(defines.items())))[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("scores.cu", ("label_scores", "label_scores_carefully", "hash_rows")),
        ("masks.cu", ("mask", "mask_carefully")),
        ("narrow.cu", ("label_scores", "mask", "every_label")),
    ],
)
def test_a_kernel_is_compiled_without_the_others_of_its_file(compiler, name, kernels):
    defines = tuple(sorted((SHORT if name == "narrow.cu" else MIDDLE).items()))
    for kernel in kernels:
        code = compiler._compile(name, defines, kernel, haste=True)
        assert [one for one in kernels if b".text." + one.encode() + b"\0" in code] == [kernel]


def test_what_was_compiled_is_kept(compiler, tmp_path):
    assert compiler._kept("copies.cu", ()) is None
    code = compiler._compiled("copies.cu", ())
    assert compiler._kept("copies.cu", ()) == code
    assert compiler._kept("copies.cu", (("BLOCK", 128),)) is None
    (kept,) = (tmp_path / "kernels").iterdir()
    kept.write_bytes(kept.read_bytes()[:-9] + b"forgeries")
    assert compiler._kept("copies.cu", ()) is None


class Driver:
    """What a device would be asked for."""

    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")

    def __init__(self):
        self.loaded, self.modes = [], []

    def cuThreadExchangeStreamCaptureMode(self, mode):  # noqa: N802
        self.modes.append(mode)
        return 0, "before"

    def cuModuleLoadData(self, code):  # noqa: N802
        self.loaded.append(code)
        return 0, len(self.loaded)

    def cuModuleGetFunction(self, module, kernel):  # noqa: N802
        return 0, (module, kernel)


class Slow:
    """Stands for the compiler: programs in full come when they are let go."""

    def __init__(self, monkeypatch):
        self.lets_go, self.made = Event(), []
        monkeypatch.setattr(Launcher, "_compile", lambda _, *program, haste=False: self.compile(program, haste))

    def compile(self, program, haste):
        assert haste or self.lets_go.wait(60)
        name = program[-1] if len(program) == 3 else program[0]
        self.made.append(f"{name}{' in haste' * haste}")
        return self.made[-1].encode()


def test_a_program_made_in_haste_serves_until_the_other_one_is_there(compiler, monkeypatch):
    compiler._driver, slow = Driver(), Slow(monkeypatch)
    for _ in range(2):
        assert compiler._kernel("sorted.cu", (), "sorted", 0) == (1, b"sorted")
    assert not compiler._kernels, "the next call looks again"
    slow.lets_go.set()
    compiler.finish_compiling()
    for _ in range(2):
        assert compiler._kernel("sorted.cu", (), "sorted", 0) == (2, b"sorted")
    assert list(compiler._kernels) == [("sorted.cu", (), "sorted")]
    assert compiler._driver.loaded == [b"sorted.cu in haste", b"sorted.cu"]
    again = Launcher(None, 1, "sm_90", Driver(), nvrtc)
    assert again._kernel("sorted.cu", (), "sorted", 0) == (1, b"sorted")
    assert again._driver.loaded == [b"sorted.cu"], "it is in the cache"


def test_a_graph_that_is_captured_has_the_program_in_full(compiler, monkeypatch):
    compiler._driver, slow = Driver(), Slow(monkeypatch)
    compiler._kernel("copies.cu", (), "prepare", 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    slow.lets_go.set()
    compiler._kernel("copies.cu", (), "prepare", 0)
    assert compiler._driver.loaded == [b"copies.cu in haste", b"copies.cu"]
    assert compiler._driver.modes == ["relaxed", "before"]


def test_a_careful_kernel_is_compiled_beside_the_one_that_it_follows(compiler, monkeypatch):
    compiler._driver, slow = Driver(), Slow(monkeypatch)
    slow.lets_go.set()
    for kernel in ("mask", "mask_carefully", "mask"):
        assert compiler._kernel("masks.cu", (), kernel, 0)[1] == kernel.encode()
        compiler.finish_compiling()
    in_full = [name for name in slow.made if not name.endswith("haste")]
    assert sorted(in_full) == ["mask", "mask_carefully"]


def test_what_cannot_be_compiled_is_told_to_whom_it_concerns(compiler, monkeypatch):
    compiler._driver, texts = Driver(), {"copies.cu": "nonsense here"}
    monkeypatch.setattr(launcher, "source", lambda name: texts.get(name, ""))
    compiler.begin(("copies.cu", ()))
    for _ in range(2):
        with pytest.raises(CannotCompileError, match="nonsense"):
            compiler._kernel("copies.cu", (), "find_copies", 0)


@pytest.mark.parametrize("in_haste", [False, True])
def test_what_failed_once_is_tried_again(compiler, monkeypatch, in_haste):
    compiler._driver, failures = Driver(), [MemoryError("in full"), MemoryError("in haste")][: 1 + in_haste]

    def fails_at_first(*_, haste=False):
        if failures:
            raise failures.pop()
        return b"made"

    monkeypatch.setattr(Launcher, "in_haste", in_haste)
    monkeypatch.setattr(Launcher, "_compile", fails_at_first)
    with pytest.raises(MemoryError, match="in full"):
        compiler._kernel("copies.cu", (), "prepare", 0)
    assert compiler._kernel("copies.cu", (), "prepare", 0) == (1, b"prepare")


def test_where_haste_fails_the_program_in_full_is_waited_for(compiler, monkeypatch):
    compiler._driver = Driver()
    monkeypatch.setattr(Launcher, "_compile", lambda *_, haste=False: 1 / 0 if haste else b"in full")
    assert compiler._kernel("copies.cu", (), "prepare", 0) == (1, b"prepare")
    assert compiler._driver.loaded == [b"in full"]


def test_kernels_are_there_while_the_interpreter_ends(compiler, monkeypatch):
    def no_threads(*_):
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    compiler._driver = Driver()
    monkeypatch.setattr(launcher.ThreadPoolExecutor, "submit", no_threads)
    for _ in range(2):  # compiled, and from the cache
        assert compiler._kernel("copies.cu", (), "prepare", 0)[1] == b"prepare"
        compiler = Launcher(None, 1, "sm_90", compiler._driver, nvrtc)


def test_a_program_that_fails_only_in_full_goes_on_as_it_is(compiler, monkeypatch):
    compiler._driver = Driver()
    monkeypatch.setattr(Launcher, "_compile", lambda *_, haste=False: b"made" if haste else 1 / 0)
    for _ in range(2):
        assert compiler._kernel("copies.cu", (), "prepare", 0) == (1, b"prepare")
        compiler.finish_compiling()


def test_a_folder_that_cannot_be_written_only_costs_time(compiler, tmp_path, monkeypatch):
    (tmp_path / "kernels").write_text("a file where the folder should be")
    assert compiler._compiled("copies.cu", ())[:4] == b"\x7fELF"


def test_the_words_of_the_compiler_reach_the_user(compiler, monkeypatch):
    monkeypatch.setattr(launcher, "source", lambda name: "nonsense here")
    with pytest.raises(CannotCompileError, match=r"nvrtc could not compile copies\.cu: .*nonsense"):
        compiler._compile("copies.cu", ())


def test_without_a_home_there_is_a_folder(monkeypatch):
    monkeypatch.delenv("APTSET_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(launcher.Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("none")))
    assert launcher.cache_folder().parts[-2:] == ("aptset", "kernels")


def test_a_folder_of_others_is_no_cache(tmp_path, monkeypatch):
    """A user without a home keeps kernels in the temporary directory, and loads none that somebody else put there."""
    monkeypatch.setattr(launcher.tempfile, "tempdir", str(tmp_path))
    launcher._temporary_home.cache_clear()
    theirs = tmp_path / f"aptset-{os.getuid()}"
    assert launcher._temporary_home() == theirs
    theirs.chmod(0o777)
    launcher._temporary_home.cache_clear()
    assert launcher._temporary_home() != theirs
    launcher._temporary_home.cache_clear()
