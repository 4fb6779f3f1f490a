"""accelerate: a loop with accumulation, clipping, a scheduler and an evaluation whose predictions are gathered."""
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
inputs = torch.randn(120, 8)
data = TensorDataset(inputs, (inputs.sum(1) > 0).long())
train, test = torch.utils.data.random_split(data, (96, 24), torch.Generator().manual_seed(0))
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
model, optimizer, scheduler, train, test = accelerator.prepare(
    model, optimizer, scheduler, DataLoader(train, 8, shuffle=True), DataLoader(test, 8))
for epoch in range(2):
    model.train()
    for x, y in train:
        with accelerator.accumulate(model):
            accelerator.backward(nn.functional.cross_entropy(model(x), y))
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    model.eval()
    right = seen = 0
    for x, y in test:
        with torch.no_grad():
            found, wanted = accelerator.gather_for_metrics((model(x).argmax(1), y))
        right, seen = right + int((found == wanted).sum()), seen + len(wanted)
    accelerator.print(f"epoch {epoch}: {right} of {seen}")
accelerator.end_training()
