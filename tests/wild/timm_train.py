"""timm: a model, its augmented loader of two workers with a distributed sampler, its optimizer, scheduler and EMA, as its train.py puts
them together."""
import os

import timm
import torch
from PIL import Image
from timm.data import create_loader
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

torch.distributed.init_process_group("gloo")
torch.manual_seed(42 + int(os.environ["RANK"]))


class Images(Dataset):
    transform = None

    def __len__(self):
        return 48

    def __getitem__(self, number):
        return self.transform(Image.new("RGB", (40, 40), (number * 5, 100, 255 - number * 5))), number % 4


model = timm.create_model("resnet10t", num_classes=4)
ema = ModelEmaV3(model, decay=0.9)
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3)
scheduler = CosineLRScheduler(optimizer, t_initial=2)
model = DistributedDataParallel(model)
train = create_loader(Images(), (3, 32, 32), 8, is_training=True, num_workers=2, distributed=True, use_prefetcher=False)
test = create_loader(Images(), (3, 32, 32), 8, is_training=False, num_workers=1, distributed=True, use_prefetcher=False)
for epoch in range(2):
    train.sampler.set_epoch(epoch)
    model.train()
    for x, y in train:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        ema.update(model)
    scheduler.step(epoch + 1)
    model.eval()
    total = torch.zeros(1)
    with torch.no_grad():
        for x, y in test:
            total += torch.nn.functional.cross_entropy(model(x), y)
    torch.distributed.all_reduce(total)
torch.distributed.destroy_process_group()
