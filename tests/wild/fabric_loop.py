"""lightning: Fabric; a loop of one's own whose model, optimizer and loader Fabric sets up."""
import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

fabric = lightning.Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
fabric.seed_everything(3)
inputs = torch.randn(96, 8)
data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9))
loader = fabric.setup_dataloaders(DataLoader(data, 8, shuffle=True))
for epoch in range(3):
    loader.sampler.set_epoch(epoch)
    for number, (x, y) in enumerate(loader):
        accumulating = number % 2 == 0
        with fabric.no_backward_sync(model, enabled=accumulating):
            fabric.backward(nn.functional.mse_loss(model(x), y) / 2)
        if not accumulating:
            optimizer.step()
            optimizer.zero_grad()
