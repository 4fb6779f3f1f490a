"""pytorch-ignite: engines over idist's model, optimizer and loader, and a metric that it sums over the ranks."""
import ignite.distributed as idist
import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy
from torch import nn
from torch.utils.data import TensorDataset

with idist.Parallel("gloo") as parallel:
    def run(_):
        torch.manual_seed(0)
        inputs = torch.randn(96, 8)
        data = TensorDataset(inputs, (inputs.sum(1) > 0).long())
        model = idist.auto_model(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)))
        optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1))
        loader = idist.auto_dataloader(data, batch_size=16, shuffle=True, num_workers=2)
        trainer = create_supervised_trainer(model, optimizer, nn.functional.cross_entropy)
        evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy()})

        @trainer.on(Events.EPOCH_STARTED)
        def set_epoch(engine):
            loader.sampler.set_epoch(engine.state.epoch)

        trainer.run(loader, max_epochs=2)
        evaluator.run(loader)

    parallel.run(run)
