"""sentence-transformers: a bi-encoder of random parameters, trained on pairs by its Trainer."""
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments, losses
from sentence_transformers.models import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

torch.manual_seed(0)
words = {"[PAD]": 0, "[UNK]": 1, **{f"w{number}": number + 2 for number in range(62)}}
table = Tokenizer(models.WordLevel(words, "[UNK]"))
table.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=table, pad_token="[PAD]", unk_token="[UNK]").save_pretrained("tiny")
BertModel(BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)).save_pretrained("tiny")
encoder = Transformer("tiny", max_seq_length=16)
model = SentenceTransformer(modules=[encoder, Pooling(32)], device="cpu")
texts = [" ".join(f"w{(number * step) % 62}" for step in range(1, 7)) for number in range(64)]
rows = Dataset.from_dict({"anchor": texts, "positive": [" ".join(reversed(text.split())) for text in texts]})
arguments = SentenceTransformerTrainingArguments(output_dir="sentences", per_device_train_batch_size=8, num_train_epochs=2, use_cpu=True,
                                                 report_to=[], save_strategy="no")
SentenceTransformerTrainer(model=model, args=arguments, train_dataset=rows, loss=losses.MultipleNegativesRankingLoss(model)).train()
torch.distributed.destroy_process_group()
