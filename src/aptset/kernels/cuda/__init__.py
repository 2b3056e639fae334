"""The loops on NVIDIA devices: their source in CUDA C, and what compiles, keeps and starts it.

NVIDIA's run-time compiler makes the kernels, what it made is kept on disk, and they are started on torch's stream.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, NamedTuple

import torch

from aptset.kernels.cuda.jobs import Defines

_HEADERS = (
    *("row.cuh", "warp.cuh", "exact_fallback.cuh", "loading.cuh", "tiles.cuh", "output.cuh"),
    *("registers.cuh", "bracket.cuh", "candidates.cuh", "logits.cuh"),
)
_SPLITS = (13, 0)  # from this version on nvrtc compiles the kernels of a file side by side, and in haste
_IN_HASTE = "--Ofast-compile=mid"  # a third of the time, and the same bits from kernels that take several times as long
_ONE_BY_ONE = ("scores.cu", "masks.cu", "narrow.cu")  # files whose kernels are compiled when they are asked for
_CAREFUL = {("scores.cu", "label_scores"): "label_scores_carefully", ("masks.cu", "mask"): "mask_carefully"}  # follow


class CannotCompileError(RuntimeError):
    """The kernels cannot be made on this machine."""


@cache
def source(name: str) -> str:
    """Return the text of a file of kernels."""
    return files("aptset.kernels.cuda").joinpath(name).read_text(encoding="utf-8")


def cache_folder() -> Path:
    """Return where compiled kernels are kept: ``APTSET_CACHE``, else the cache folder of the user."""
    chosen = os.environ.get("APTSET_CACHE")
    if chosen:
        return Path(chosen) / "kernels"
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a user without a home, as in some containers
        home = _temporary_home()
    return Path(home) / "aptset" / "kernels"


@cache
def _temporary_home() -> Path:
    """Return a folder that nobody else can write to: what lies there is loaded onto the device."""
    home = Path(tempfile.gettempdir()) / f"aptset-{os.getuid()}"
    with suppress(OSError):
        home.mkdir(mode=0o700, exist_ok=True)
        state = home.lstat()
        if stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o022:
            return home
    return Path(tempfile.mkdtemp(prefix="aptset-"))


Program = tuple[Any, ...]  # a file, what it is compiled with, and of some files the only kernel


class Coming(NamedTuple):
    """A program on its way: compiled in haste, if it is, and in full."""

    hasty: Future[bytes] | None
    full: Future[bytes]


@dataclass
class Launcher:
    """One device: its kernels, compiled when they are first asked for.

    A new program is compiled in haste, so that the first call need not wait long, and then in full by another thread.
    """

    index: int
    multiprocessors: int
    architecture: str
    _driver: Any
    _compiler: Any
    _kernels: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    _modules: dict[Program, Any] = field(default_factory=dict)
    _hasty: dict[Program, Any] = field(default_factory=dict)  # modules that serve until the others are compiled
    _coming: dict[Program, Coming] = field(default_factory=dict)
    _lock: Any = field(default_factory=Lock)
    in_haste: ClassVar[bool] = True  # else the first call waits for programs that are compiled in full

    @classmethod
    def of(cls, device: Any) -> Launcher | None:
        """Return the launcher of a device, or None where NVIDIA's bindings or its compiler are missing."""
        try:
            driver, compiler = import_module("cuda.bindings.driver"), import_module("cuda.bindings.nvrtc")
            if _code(compiler.nvrtcVersion()):
                return None
        except (ImportError, RuntimeError):  # no bindings; no library behind them
            return None
        facts = torch.cuda.get_device_properties(device)
        torch.cuda.current_stream(device)  # makes the context that modules are loaded into
        index = torch.device(device).index
        index = torch.cuda.current_device() if index is None else index
        launcher = cls(index, facts.multi_processor_count, f"sm_{facts.major}{facts.minor}", driver, compiler)
        launcher.begin(("copies.cu", ()))  # which goes with every other program
        return launcher

    def begin(self, program: Program) -> None:
        """Begin to compile what will soon be asked for, beside what is compiled until then."""
        if program in self._coming or program in self._modules:
            return
        kept = self._kept(*program)
        if kept is not None:
            self._coming[program] = Coming(None, _done(lambda: kept))
            return
        thread = ThreadPoolExecutor(1)
        try:
            is_hasty = self.in_haste and self._version() >= _SPLITS
            hasty = thread.submit(lambda: self._compile(*program, haste=True)) if is_hasty else None
            self._coming[program] = Coming(hasty, thread.submit(self._compiled, *program))
        except RuntimeError:  # the interpreter ends, and starts no threads any more
            self._coming[program] = Coming(None, _done(partial(self._compiled, *program)))
        thread.shutdown(wait=False)

    def finish_compiling(self) -> None:
        """Wait until every program that was asked for is compiled in full, as those who measure time should."""
        for coming in list(self._coming.values()):
            coming.full.exception()

    def run(
        self, name: str, defines: Defines, kernel: str, grid: int, block: int, shared: int, *arguments: Any
    ) -> None:
        """Start a kernel of a file, compiled with some definitions, on the current stream of the device."""
        if torch._C._cuda_getDevice() != self.index:
            with torch.cuda.device(self.index):
                self.run(name, defines, kernel, grid, block, shared, *arguments)
            return
        function = self._kernels.get((name, defines, kernel)) or self._kernel(name, defines, kernel, shared)
        values = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        stream = torch._C._cuda_getCurrentRawStream(self.index)
        launch = (grid, 1, 1, block, 1, 1, shared, stream, ctypes.addressof(values), 0)
        (code,) = self._driver.cuLaunchKernel(function, *launch)
        if code:
            self._check((code,), "start", kernel)

    def _kernel(self, name: str, defines: Defines, kernel: str, shared: int) -> Any:
        program = (name, defines, kernel) if name in _ONE_BY_ONE else (name, defines)
        with self._lock:
            if (name, kernel) in _CAREFUL:
                self.begin((name, defines, _CAREFUL[name, kernel]))
            module, is_full = self._module(program)
            function = self._check(self._driver.cuModuleGetFunction(module, kernel.encode()), "take", kernel)
            if shared > 32 * 1024:  # with what stands there anyway it may exceed the 48 that nobody has to ask for
                most = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self._check(self._driver.cuFuncSetAttribute(function, most, shared), "give room to", kernel)
            if is_full:
                self._kernels[name, defines, kernel] = function
            return function

    def _module(self, program: Program) -> tuple[Any, bool]:
        """Return a program on the device, and whether it is compiled in full, as a graph that is captured must be."""
        if program in self._modules:
            return self._modules[program], True
        self.begin(program)
        hasty, full = self._coming[program]
        captures = torch.cuda.is_current_stream_capturing()
        is_there = full.done() and full.exception() is None
        if hasty is None or captures or is_there or hasty.exception() is not None:
            del self._coming[program]  # where it failed the next call tries again
            self._modules[program] = self._load(full.result(), program[0], captures)
            return self._modules[program], True
        if program not in self._hasty:
            self._hasty[program] = self._load(hasty.result(), program[0])
        return self._hasty[program], False

    def _load(self, code: bytes, name: str, captures: bool = False) -> Any:
        driver = self._driver
        if captures:  # loading is no part of the graph
            relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
            mode = self._check(driver.cuThreadExchangeStreamCaptureMode(relaxed), "relax the capture for", name)
        module = driver.cuModuleLoadData(code)
        if captures:
            self._check(driver.cuThreadExchangeStreamCaptureMode(mode), "go on with the capture for", name)
        return self._check(module, "load", name)

    def _version(self) -> tuple[int, int]:
        major, minor = self._check(self._compiler.nvrtcVersion(), "ask nvrtc")
        return major, minor

    def _path(self, name: str, defines: Defines, only: str = "") -> Path:
        """Return where a program is kept: all that it depends on is in the name."""
        texts = "\0".join(source(one) for one in (name, *_HEADERS))
        facts = repr((texts, defines, only, self.architecture, self._version()))
        return cache_folder() / (hashlib.blake2b(facts.encode(), digest_size=16).hexdigest() + ".cubin")

    def _kept(self, *program: Any) -> bytes | None:
        """Return a program that was compiled before, if it is there as it was written."""
        try:
            kept = self._path(*program).read_bytes()
        except OSError:
            return None
        return kept[16:] if hashlib.blake2b(kept[16:], digest_size=16).digest() == kept[:16] else None

    def _compiled(self, *program: Any) -> bytes:
        """Compile all kernels of a file, or one, and keep the program."""
        code = self._compile(*program)
        _keep(self._path(*program), hashlib.blake2b(code, digest_size=16).digest() + code)
        return code

    def _compile(self, name: str, defines: Defines, only: str = "", *, haste: bool = False) -> bytes:
        nvrtc = self._compiler
        texts, names = [source(one).encode() for one in _HEADERS], [one.encode() for one in _HEADERS]
        program = self._check(
            nvrtc.nvrtcCreateProgram(source(name).encode(), name.encode(), len(names), texts, names), f"open {name}"
        )
        # No product is joined with a sum into one rounding: the bits would differ from those of processors.
        options = [f"--gpu-architecture={self.architecture}", "--fmad=false", "--std=c++17"]
        if self._version() >= _SPLITS:
            options.append(_IN_HASTE if haste else "--split-compile=0")
        options += [f"-D{key}={value}" for key, value in defines]
        options += ["-DONLY_ONE", f"-DONLY_{only}"] if only else []
        answer = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        if _code(answer):
            size = self._check(nvrtc.nvrtcGetProgramLogSize(program), "read the log")
            log = b" " * size
            nvrtc.nvrtcGetProgramLog(program, log)
            raise CannotCompileError(f"nvrtc could not compile {name}: {log.decode(errors='replace').strip()}")
        code: bytes = b" " * self._check(nvrtc.nvrtcGetCUBINSize(program), "measure the code")
        self._check(nvrtc.nvrtcGetCUBIN(program, code), "take the code")
        nvrtc.nvrtcDestroyProgram(program)
        return code

    def _check(self, answer: Any, what: str, which: str = "") -> Any:
        """Return what a call of NVIDIA's answered, after its code."""
        if _code(answer):
            raise RuntimeError(f"the device refused to {what} {which}: {answer[0]}.")
        return answer[1] if len(answer) == 2 else answer[1:]


def _done(work: Callable[[], bytes]) -> Future[bytes]:
    """Return what a thread would have done, done by this one."""
    future: Future[bytes] = Future()
    try:
        future.set_result(work())
    except Exception as error:  # told to whoever asks for the result
        future.set_exception(error)
    return future


def _code(answer: Any) -> int:
    return int(answer[0])


def _keep(path: Path, content: bytes) -> None:
    """Write a file whole, or not at all; a folder that cannot be written only costs the next process time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(content)
        os.replace(file.name, path)
    except OSError:
        return
