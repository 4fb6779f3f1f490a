"""transformers: Trainer trains a GPT-2 of random parameters, a causal language model, gradients accumulated over two batches, loaders
with a worker."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

generator = torch.Generator().manual_seed(0)
rows = []
for _ in range(96):
    ids = torch.randint(0, 64, (16,), generator=generator)
    rows.append({"input_ids": ids, "labels": ids})
config = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1)
arguments = TrainingArguments(output_dir="trainer_gpt2", per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=8,
                              use_cpu=True, report_to=[], save_strategy="no", dataloader_num_workers=1)
Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=rows).train()
torch.distributed.destroy_process_group()
