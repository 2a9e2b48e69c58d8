"""Dense PyTorch, for comparison: the matrix of kernel values is stored, 20000 rows at a time. Prints a line
`kind precision D E M N milliseconds` for each case of standard input (without the milliseconds); data are on
the device."""
import sys
import torch

BLOCK = 20000


def gauss(x, y, b, g):
    return torch.exp(-g * torch.cdist(x, y).square()) @ b


def laplace(x, y, b, g):
    return torch.exp(-g * torch.cdist(x, y)) @ b


def matern32(x, y, b, g):
    r = g * torch.cdist(x, y)
    return ((1 + r) * torch.exp(-r)) @ b


def grad(x, y, b, g):
    p = torch.exp(-g * torch.cdist(x, y).square()) * b.T
    return -2 * g * (x * p.sum(1, keepdim=True) - p @ y)


def logsumexp(x, y, b, g):
    return torch.logsumexp(-g * torch.cdist(x, y).square(), 1)


def argmin(x, y, b, g):
    return torch.cdist(x, y).argmin(1)


def kmin(x, y, b, g):
    return torch.cdist(x, y).topk(10, 1, largest=False).indices


def run(kind, x, y, b, g):
    for r in range(0, x.shape[0], BLOCK):
        globals()[kind](x[r:r + BLOCK], y, b, g)


for line in sys.stdin:
    kind, precision, d, e, m, n = line.split()
    d, e, m, n = int(d), int(e), int(m), int(n)
    dtype = torch.float32 if precision == "single" else torch.float64
    x = torch.rand(m, d, device="cuda", dtype=dtype)
    y = torch.rand(n, d, device="cuda", dtype=dtype)
    b = torch.randn(n, e, device="cuda", dtype=dtype)
    g = 12.5 if d <= 3 else 6 / d
    times = []
    for k in range(4):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run(kind, x, y, b, g)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    print(kind, precision, d, e, m, n, sorted(times[1:])[1], flush=True)
    del x, y, b
    torch.cuda.empty_cache()
