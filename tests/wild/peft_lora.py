"""peft: LoRA on a GPT-2 of random parameters, trained by transformers' Trainer with gradient checkpointing."""
import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(0)
rows = []
for _ in range(64):
    ids = torch.randint(0, 64, (16,))
    rows.append({"input_ids": ids, "labels": ids})
config = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1)
model = get_peft_model(GPT2LMHeadModel(config), LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM"))
model.enable_input_require_grads()
arguments = TrainingArguments(output_dir="peft_lora", per_device_train_batch_size=8, max_steps=8, use_cpu=True, report_to=[],
                              save_strategy="no", gradient_checkpointing=True)
Trainer(model=model, args=arguments, train_dataset=rows).train()
torch.distributed.destroy_process_group()
