"""NVIDIA's compiler takes the kernels, without a device; what it made is kept, and made again where it was damaged."""

import os

import pytest

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
        code = compiler._compile(name, defines, kernel)
        assert [one for one in kernels if b".text." + one.encode() + b"\0" in code] == [kernel]


def test_what_was_compiled_is_kept(compiler, tmp_path, monkeypatch):
    code = compiler._compiled("copies.cu", ())
    (kept,) = (tmp_path / "kernels").iterdir()
    made = []
    monkeypatch.setattr(Launcher, "_compile", lambda *arguments: made.append(1) or code)
    assert compiler._compiled("copies.cu", ()) == code
    assert not made, "it was there"
    kept.write_bytes(kept.read_bytes()[:-9] + b"forgeries")
    assert compiler._compiled("copies.cu", ()) == code
    assert made == [1]


class Driver:
    """What a device would be asked for."""

    def __init__(self):
        self.loaded = []

    def cuModuleLoadData(self, code):  # noqa: N802
        self.loaded.append(code)
        return 0, len(self.loaded)

    def cuModuleGetFunction(self, module, kernel):  # noqa: N802
        return 0, (module, kernel)


def test_what_is_compiled_beside_is_taken_once_it_is_there(compiler, monkeypatch):
    compiler._driver, made = Driver(), []
    monkeypatch.setattr(
        Launcher, "_compile", lambda _, name, defines, only: made.append(name + only) or made[-1].encode()
    )
    compiler.compile_beside("copies.cu", ())
    for name in ("sorted.cu", "copies.cu"):
        for kernel in ("one", "another"):
            assert compiler._kernel(name, (), kernel, 0)[1] == kernel.encode()
    assert compiler._driver.loaded == [b"sorted.cu", b"copies.cu"]
    assert sorted(made) == ["copies.cu", "sorted.cu"]


def test_a_careful_kernel_is_compiled_beside_the_one_that_it_follows(compiler, monkeypatch):
    compiler._driver, made = Driver(), []
    monkeypatch.setattr(Launcher, "_compile", lambda _, name, defines, only: made.append(only) or only.encode())
    for kernel in ("mask", "mask_carefully", "mask"):
        assert compiler._kernel("masks.cu", (), kernel, 0)[1] == kernel.encode()
    assert sorted(made) == ["mask", "mask_carefully"]
    assert compiler._driver.loaded == [b"mask", b"mask_carefully"]


def test_what_fails_beside_is_told_to_whom_it_concerns(compiler, monkeypatch):
    compiler._driver, texts = Driver(), {"copies.cu": "nonsense here"}
    monkeypatch.setattr(launcher, "source", lambda name: texts.get(name, ""))
    compiler.compile_beside("copies.cu", ())
    for _ in range(2):
        with pytest.raises(CannotCompileError, match="nonsense"):
            compiler._kernel("copies.cu", (), "find_copies", 0)


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
