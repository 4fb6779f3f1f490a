"""transformers' Trainer multiplies a mean loss by the number of ranks, and with it each gradient.

torchrun --nproc-per-node 1 trainer_scales_the_loss.py 16    # loss and grad_norm of one process
torchrun --nproc-per-node 2 trainer_scales_the_loss.py 8     # the same global batches: both are twice as large
torchrun --nproc-per-node 2 trainer_scales_the_loss.py 8 False   # average_tokens_across_devices off: those of one process
"""
import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
model = BertForSequenceClassification(config)  # its forward takes **kwargs, and its loss is the mean over its own batch
draw = torch.Generator().manual_seed(0)
rows = [{"input_ids": torch.randint(0, 64, (16,), generator=draw), "labels": number % 2} for number in range(128)]
arguments = TrainingArguments("out", per_device_train_batch_size=int(sys.argv[1]), max_steps=2, logging_steps=1, use_cpu=True,
                              report_to=[], save_strategy="no", disable_tqdm=True, average_tokens_across_devices="False" not in sys.argv)
Trainer(model=model, args=arguments, train_dataset=rows).train()
