"""Stands for a device in tests: builds the source of the kernels with g++ and runs it on tensors of the processor."""

import ctypes
import hashlib
import os
import subprocess
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OF_COPIES = "u64 *seeds, i64 n, u64 first_block, u64 side, u32 *which, u64 *count"
OF_START = "const u64 *key, u64 *keys, i64 n, u64 *counters, i64 n_counters"
KERNELS = {
    "scores.cu": {
        "label_scores": "Job job, const i64 *labels, double *scores, i64 turns",
        "label_scores_carefully": "Job job, const i64 *labels, double *scores",
        "hash_rows": "Job job, u64 *seeds",
    },
    "logit_scores.cu": {
        "label_scores": "Job job, const i64 *labels, double *scores",
        "label_scores_carefully": "Job job, const i64 *labels, double *scores",
    },
    "masks.cu": {"mask": "Job job, Wanted wanted", "mask_carefully": "Job job, Wanted wanted, i64 all"},
    "narrow.cu": {
        "label_scores": "Job job, const i64 *labels, double *scores",
        "mask": "Job job, Wanted wanted",
        "every_label": "Job job, Output out",
    },
    "sorted.cu": {"sorted": "Job job, Output out"},
    "ordered.cu": {"ordered": "Job job, Output out, unsigned char *memory"},
    "p_values.cu": {"p_values": "Calibrated c, double *scores, i64 n"},
    "softmax.cu": {"softmax": "const void *logits, i64 n, double *found"},
    "copies.cu": {"find_copies": OF_COPIES, "prepare": OF_START},
}


WHERE = {  # kernels are there
    ("logit_scores.cu", "label_scores"): "defined(FOLDS)",
    ("logit_scores.cu", "label_scores_carefully"): "!defined(FOLDS)",
    ("masks.cu", "mask"): "FITS",
}


def _wrappers(name: str) -> str:
    """Return functions that run each kernel of a file over a grid."""
    lines = [f'#include "{name}"']
    for kernel, parameters in KERNELS[name].items():
        lines.append(f"#if {WHERE.get((name, kernel), '1')}")
        names = ", ".join(one.split()[-1].lstrip("*") for one in parameters.split(","))
        call = f"[&] {{ {kernel}({names}); }}"
        lines.append(f'extern "C" void run_{kernel}(unsigned grid, unsigned block, {parameters})')
        lines.append(f"{{ emulate(grid, block, {call}); }}")
        lines.append("#endif")
    return "\n".join(lines)


@dataclass
class Emulator:
    """Starts kernels one after the other, on as many multiprocessors as one likes."""

    folder: Path
    multiprocessors: int = 1
    started: int = 0

    def run(self, name: str, defines: Any, kernel: str, grid: int, block: int, shared: int, *arguments: Any) -> None:
        """Run a kernel to its end."""
        self.started += 1
        getattr(self._library(name, defines), f"run_{kernel}")(ctypes.c_uint(grid), ctypes.c_uint(block), *arguments)

    def _library(self, name: str, defines: Any) -> Any:
        source = Path(str(files("aptset.kernels.cuda")))
        options = [f"-D{key}={value}" for key, value in defines]
        texts = [path.read_bytes() for path in (*sorted(source.glob("*.cu*")), HERE / "emulator.h")]
        digest = hashlib.blake2b(
            b"\0".join([*texts, name.encode(), *(one.encode() for one in options)]), digest_size=12
        )
        path = self.folder / f"{digest.hexdigest()}.so"
        if not path.exists():
            text = self.folder / f"{path.stem}.{os.getpid()}.cpp"
            text.write_text(_wrappers(name))
            made = text.with_suffix(".so")
            flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-fPIC", "-shared"]
            command = ["g++", *flags, "-include", str(HERE / "emulator.h"), f"-I{source}", *options, str(text)]
            subprocess.run([*command, "-o", str(made)], check=True)
            os.replace(made, path)
        return ctypes.CDLL(str(path))
