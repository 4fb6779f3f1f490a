"""Files of tests, as users write them."""

FIXTURES = """
import logging, os, random, sys, warnings
import numpy, pytest, torch, torch.distributed as dist
import lockstep
from torch.distributed import all_reduce

calls = []

@pytest.fixture(scope="session", autouse=True)
def threads_of_pytest():
    weight = torch.randn(512, 512, requires_grad=True)
    (weight @ weight).sum().backward()  # By all threads, which no fork has.

@pytest.fixture(scope="session")
def numbers():
    calls.append(1)
    return [1, 2, 3]

@pytest.fixture
def closure():
    value = 7
    return lambda: value

@pytest.fixture(params=["a", "b"])
def letter(request):
    return request.param

@lockstep.world(2, 3)
@pytest.mark.parametrize("number", [5, 6])
def test_arguments(rank, world_size, number, letter, numbers):
    total = torch.tensor([rank])
    dist.all_reduce(total)
    assert total.item() == sum(range(world_size)) and number in (5, 6) and letter in "ab" and numbers == [1, 2, 3]
    assert (os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"]) == (str(rank), str(world_size), str(rank))
    assert dist.get_rank() == rank and dist.get_world_size() == world_size and dist.get_backend() == "gloo"

@lockstep.world(2)
def test_without_arguments():
    dist.barrier()
    weight = torch.randn(512, 512, requires_grad=True)
    (weight @ weight).sum().backward()

@lockstep.world(2)
def test_closure(closure):
    assert closure() == 7

@lockstep.world(2)
class TestClass:
    def setup_method(self):
        self.value = 3

    def test_method(self, rank):
        assert self.value == 3 and dist.get_rank() == rank

@lockstep.world(2)
def test_one_folder(rank, tmp_path):
    (tmp_path / f"rank{rank}").touch()
    dist.barrier()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["rank0", "rank1"]

@pytest.fixture
def patched(monkeypatch):
    monkeypatch.setenv("PATCHED", "1")
    monkeypatch.setattr(sys.modules[__name__], "calls", ["patched"])

@lockstep.world(2)
def test_patched(patched):
    assert os.environ["PATCHED"] == "1" and calls == ["patched"]

@pytest.fixture
def changed():
    os.environ["BY_FIXTURE"] = "1"
    torch.set_default_dtype(torch.float64)
    yield
    del os.environ["BY_FIXTURE"]
    torch.set_default_dtype(torch.float32)

@lockstep.world(2)
def test_changed(changed):
    assert os.environ["BY_FIXTURE"] == "1" and torch.get_default_dtype() == torch.float64

@lockstep.world(2)
def test_after_changed():
    assert "BY_FIXTURE" not in os.environ and torch.get_default_dtype() == torch.float32

@lockstep.world(2)
def test_monkeypatch(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "calls", ["here"])
    assert calls == ["here"]

@lockstep.world(2)
def test_after_monkeypatch():
    assert calls != ["here"]

@lockstep.world(2)
def test_capsys(rank, capsys):
    print("of rank", rank)
    assert capsys.readouterr().out == f"of rank {rank}\\n"

@lockstep.world(2)
def test_caplog(rank, caplog):
    logging.getLogger("of.ours").error("of rank %d", rank)
    assert caplog.messages == [f"of rank {rank}"]

@lockstep.world(2)
def test_warns(rank):
    with pytest.warns(UserWarning, match="of rank"):
        warnings.warn(f"of rank {rank}")

@lockstep.world(2)
def test_recwarn(rank, recwarn):
    warnings.warn(f"of rank {rank}")
    assert len(recwarn) == 1

@lockstep.world(2)
def test_raises():
    with pytest.raises(ZeroDivisionError):
        1 / 0

@lockstep.world(3)
def test_seeds(rank):
    mine = random.random(), numpy.random.rand(), torch.rand(()).item()
    everyone = [None] * 3
    dist.all_gather_object(everyone, mine)
    assert all(len(set(column)) == 3 for column in zip(*everyone))
    print("drawn", *mine)
    assert rank < 0 or "SHOW" not in os.environ

@lockstep.world(2)
def test_collectives(rank):
    assert lockstep.collectives() == []
    dist.broadcast(torch.ones(6, dtype=torch.float64), 0)
    group = dist.new_group([0, 1])
    dist.all_reduce(torch.ones(3), async_op=True).wait()
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    ddp(torch.ones(1, 4)).sum().backward()
    assert [(each.kind, each.bytes, each.group_size) for each in lockstep.collectives()] == [
        ("broadcast", 48, 2), ("allreduce", 12, 2), ("ddp_construction", 0, 2), ("ddp_backward", 40, 2)]

@lockstep.world(2)
def test_compiled(rank):
    def doubled(x):
        y = x * 2
        all_reduce(y)
        return y + 1
    assert torch.compile(doubled, backend="eager", fullgraph=True)(torch.ones(3)).tolist() == [5, 5, 5]

@lockstep.world(2)
def test_inject(rank):
    lockstep.inject("throw", rank=1, at=0)
    try:
        all_reduce(torch.ones(1))
        assert rank == 0
    except lockstep.InjectedError:
        assert rank == 1
        all_reduce(torch.ones(1))
    with pytest.raises(ValueError, match="the kinds are kill, throw, delay, drop"):
        lockstep.inject("explode", rank=0, at=0)

def test_no_world():
    with pytest.raises(RuntimeError, match="is for a rank"):
        lockstep.inject("kill", rank=0, at=0)
    with pytest.raises(RuntimeError, match="is for a rank"):
        lockstep.collectives()

@lockstep.world(1)
def test_alone(world_size):
    dist.barrier()
    assert world_size == 1
"""
OUTCOMES = """
import logging, sys, unittest, warnings
import pytest, torch.distributed as dist
import lockstep

@lockstep.world(2)
def test_skipped():
    pytest.skip("all of us")

@lockstep.world(2)
def test_unittest_skip():
    raise unittest.SkipTest("all of us")

@lockstep.world(2)
def test_importorskip():
    pytest.importorskip("no_such_module")

@lockstep.world(2)
def test_xfail_in_body():
    pytest.xfail("known")

@lockstep.world(2)
@pytest.mark.xfail(raises=KeyError, strict=True)
def test_xfail_mark(rank):
    {}[rank]

@lockstep.world(2)
@pytest.mark.xfail(raises=KeyError)
def test_other_error(rank):
    raise ValueError(rank)

@lockstep.world(2)
def test_output(rank):
    print("out", rank)
    print("err", rank, file=sys.stderr)
    logging.getLogger("of.ours").warning("log %d", rank)
    warnings.warn("a warning of a rank")
    assert rank < 0, "with a reason"

@lockstep.world(2, tier="cold")
def test_capfd(capfd):
    pass

@lockstep.world(2)
async def test_async():
    pass
"""
REFUSED = """
import unittest
import pytest, lockstep

@pytest.fixture
def of_rank(rank):
    return rank + 1

@lockstep.world(2)
def test_fixture_of_rank(of_rank):
    pass

def test_no_world(rank):
    pass
"""
TRAINING = """
import torch, torch.distributed as dist, lockstep
from torch.distributed.fsdp import fully_shard

def train(rank, mistake=None):
    model = torch.nn.Linear(4, 2)
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        ddp(torch.randn(2, 4)).sum().backward()
        if mistake and rank == 1:
            mistake(model)
        optimizer.step()

def throw(model):
    raise ValueError("planted")

@lockstep.world(2)
def test_right(rank):
    train(rank)

@lockstep.world(2)
def test_wrong(rank):
    train(rank, lambda model: model.weight.grad.mul_(2))

@lockstep.world(2)
def test_no_training(rank):
    dist.barrier()

@lockstep.world(2)
def test_unjudged(rank):
    model = fully_shard(torch.nn.Linear(4, 2))  # Each rank has a part of it, which no other rank has.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()

@lockstep.world(2)
def test_throws(rank):
    train(rank, throw)
"""

TIMEOUT_OF_A_GROUP = """
import datetime, lockstep, pytest, torch, torch.distributed as dist

@lockstep.world(2)
def test_timeout(rank):
    group = dist.new_group(timeout=datetime.timedelta(seconds=2))
    if rank == 0:
        with pytest.raises(RuntimeError):
            dist.all_reduce(torch.ones(1), group=group)

@lockstep.world(2)
def test_after():
    dist.barrier()
"""
