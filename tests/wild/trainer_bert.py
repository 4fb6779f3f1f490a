"""transformers: Trainer trains a BERT of random parameters to classify rows of tokens; with dropout, and an evaluation each 4 updates."""
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

generator = torch.Generator().manual_seed(0)
rows = [{"input_ids": torch.randint(0, 64, (16,), generator=generator), "labels": number % 2} for number in range(128)]
config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, max_position_embeddings=32)
arguments = TrainingArguments(output_dir="trainer_bert", per_device_train_batch_size=8, num_train_epochs=2, use_cpu=True,
                              report_to=[], save_strategy="no", eval_strategy="steps", eval_steps=4)
Trainer(model=BertForSequenceClassification(config), args=arguments, train_dataset=rows[:96], eval_dataset=rows[96:]).train()
torch.distributed.destroy_process_group()
