"""trl: SFTTrainer on tokenised rows, a GPT-2 of random parameters."""
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

torch.manual_seed(0)
words = {"<pad>": 0, "<eos>": 1, **{f"w{number}": number + 2 for number in range(62)}}
tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, "<pad>")), pad_token="<pad>", eos_token="<eos>")
rows = Dataset.from_dict({"input_ids": [torch.randint(2, 64, (12 + number % 5,)).tolist() for number in range(64)]})
config = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=1, pad_token_id=0)
arguments = SFTConfig(output_dir="trl_sft", per_device_train_batch_size=4, max_steps=8, use_cpu=True, report_to=[], save_strategy="no",
                      bf16=False, gradient_checkpointing=False)
SFTTrainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=rows, processing_class=tokenizer).train()
torch.distributed.destroy_process_group()
