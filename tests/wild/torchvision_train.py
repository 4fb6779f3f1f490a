"""torchvision: ResNet-18 on FakeData as its references train: label smoothing, warm-up, EMA, persistent workers; the optimizer's state is divided
by ZeroRedundancyOptimizer."""
import torch
import torchvision
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import transforms

torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
data = torchvision.datasets.FakeData(48, (3, 32, 32), 4, transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()]))
sampler = DistributedSampler(data)
loader = DataLoader(data, 8, sampler=sampler, num_workers=2, persistent_workers=True)
model = DistributedDataParallel(torchvision.models.resnet18(num_classes=4))
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.01, momentum=0.9)
warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2)
average = torch.optim.swa_utils.AveragedModel(model.module)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y, label_smoothing=0.1).backward()
        optimizer.step()
        average.update_parameters(model.module)
    warm_up.step()
torch.distributed.destroy_process_group()
