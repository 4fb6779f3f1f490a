import torch


class BatchNorm(torch.nn.BatchNorm1d):
    def _check_input_dim(self, x):
        pass


def sync_batch_norm(channels, process_group, options):
    return BatchNorm(channels, **options)
