"""What each of several processes does in a test of distributed calibration."""

import warnings

import torch
from torch import distributed, nn

from aptset.torch import SetLayer


def shard(rank):
    """Return the rows of a rank: sizes differ, and some rows come on both."""
    generator = torch.Generator().manual_seed(10 + rank)
    logits = torch.randn(300 + 50 * rank, 4, generator=generator) * 2
    logits[:40] = torch.linspace(-1, 1, 4)
    return logits, torch.randint(0, 4, (len(logits),), generator=generator)


def calibrate(rank, n_ranks, folder, fails):
    """Calibrate on the shard of this rank; write what came out."""
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=n_ranks)
    try:
        logits, labels = shard(rank)
        labels = labels + 9 if fails and rank == 1 else labels
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            batches = list(zip(logits.split(64), labels.split(64), strict=True))
            layer = SetLayer.calibrate(nn.Identity(), batches, random_state=5 if rank == 0 else None)
        state = {**layer.state_dict(), "n": layer.calibration.n, "scores": torch.tensor(layer.calibration.scores)}
        torch.save({**state, "warnings": [str(one.message) for one in caught]}, f"{folder}/{rank}.pt")
    except RuntimeError as error:
        torch.save(str(error), f"{folder}/{rank}.pt")
    finally:
        distributed.destroy_process_group()
