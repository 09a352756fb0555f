"""What is demanded of ranked ids: looking hits up, buckets of ids, many labels."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.demands.verdict import Verdict
from benchmarks.measure import Call, Settings, compare
from benchmarks.ours import evaluate, xmc_metrics
from benchmarks.peers.ranked_ids import KERNELS, PYXCLIB, Judged
from benchmarks.workloads import Lists, label_counts
from tailmetrics import LabelBuckets, rank
from tailmetrics.ranking._kernels_cpu import CPU


def hits(settings: Settings) -> Iterator[Verdict]:
    """Yield nanoseconds per listed id of the look-up of hits, and of the bucket of an id."""
    for most, demand in ((9, 8.0), (50, 25.0)):
        data = Lists.of(200 if settings.quick else 20_000, 100, 200_000, most=most)
        targets = rank(data.ids, data.relevant).targets
        buckets = LabelBuckets.deciles(label_counts(data.num_labels))
        calls = {
            "find": Call(lambda: CPU.look_up(targets, data.ids)),  # noqa: B023
            "bucket": Call(lambda: buckets.of(data.ids)),  # noqa: B023
        }
        times = compare(calls, "find", settings)
        per_id = {name: time.chosen * 1e9 / data.ids.numel() for name, time in times.items()}
        case = f"[{len(data)}, 100] over {data.num_labels:,} labels"
        yield Verdict("hits of ranked ids", f"{case}, 1 to {most} relevant", per_id["find"], demand, "ns per id")
    yield Verdict("bucket of an id", case, per_id["bucket"], None, "ns per id")


def against_kernels(settings: Settings) -> Iterator[Verdict]:
    """Yield CPU time relative to kernels in numpy and scipy, on one thread as they are, on ids with CSR targets."""
    data = Lists.xmc(settings)
    judged = Judged.of(data)
    kernels = {name: Call(lambda kernel=kernel: kernel(judged)) for name, kernel in KERNELS.items()}
    forms = {"scipy CSR": data.csr, "torch CSR": data.torch_csr}
    ours = {}
    for validate in (True, False):
        collection = xmc_metrics(data.num_labels, validate)
        for form, target in forms.items():
            name = f"{form}, validate_args={validate}"
            ours[name] = Call(lambda c=collection, target=target: evaluate(c, data.ids, target))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times = compare(ours | kernels, next(iter(kernels)), settings)
    torch.set_num_threads(threads)
    best = min(kernels, key=lambda name: times[name].cpu)
    for name in ours:
        case = f"[{len(data)}, 100] over 200,000 labels, {name}"
        for unit, kernel, demand in (("× pyxclib's route, CPU", PYXCLIB, 1.0), ("× fastest script, CPU", best, None)):
            ratio = times[name].cpu / times[kernel].cpu
            note = f"{times[name].cpu:.3f} CPU-s; {kernel}: {times[kernel].cpu:.3f}"
            yield Verdict("P, nDCG, PSP at 1, 3, 5 of ranked ids", case, ratio, demand, unit, note)


def many_labels(settings: Settings) -> Iterator[Verdict]:
    """Yield what three million labels cost, relative to 200,000."""
    rows = 500 if settings.quick else 10_000
    calls = {}
    for num_labels in (200_000, 3_000_000):
        data, collection = Lists.of(rows, 100, num_labels), xmc_metrics(num_labels)
        calls[f"{num_labels:,}"] = Call(lambda c=collection, d=data: evaluate(c, d.ids, d.csr))
    times = compare(calls, "200,000", settings)
    most = times["3,000,000"]
    case = f"[{rows}, 100] over 3,000,000 labels, scipy CSR"
    note = f"runs in {most.seconds:.3f} s on {torch.get_num_threads()} threads"
    yield Verdict("3 million labels usable", case, most.ratio, None, "× the same over 200,000 labels", note)
