"""What a seed makes of a training loop: model, data and who draws it, workers, accumulation, optimizer, schedule, precision, evaluation,
checkpoint; and the mistakes that loops.py can plant in it, each with the claims that find it."""

import dataclasses
import random


@dataclasses.dataclass
class Loop:
    world: int
    model: str
    fed: str  # sampler, batch_sampler, stream, by_hand
    shuffle: bool
    dataset: str  # tensors, subset, concatenated, split
    workers: int
    persistent: bool
    made_anew: bool  # the loader, in each epoch
    peek: bool  # one batch is looked at before the training
    batch: int
    batches: int  # of an epoch
    epochs: int
    accumulation: int
    no_sync: bool
    optimizer: str
    schedule: str
    precision: str
    clip: bool
    evaluation: str  # none, whole_on_rank_zero, counted, padded_alone
    checkpoint: bool
    ema: bool
    divided: bool  # the loss, by accumulation


def draw(seed):
    rng = random.Random(seed)
    fed = rng.choice(["sampler", "sampler", "sampler", "batch_sampler", "stream", "by_hand"])
    loaded = fed != "by_hand"
    accumulation = rng.choice([1, 1, 2, 3])
    return Loop(world=rng.choice([2, 2, 3, 4]), model=rng.choice(["linear", "convolutions", "words", "frozen", "tied"]), fed=fed,
                shuffle=rng.random() < 0.7, dataset=rng.choice(["tensors", "subset", "concatenated", "split"]),
                workers=rng.choice([0, 0, 1, 2]) if loaded else 0, persistent=rng.random() < 0.5, made_anew=loaded and rng.random() < 0.3,
                peek=loaded and rng.random() < 0.2, batch=rng.randint(2, 4), batches=accumulation * rng.randint(2, 3),
                epochs=rng.randint(2, 3), accumulation=accumulation, no_sync=rng.random() < 0.7,
                optimizer=rng.choice(["sgd", "momentum", "adam", "adamw_groups"]), schedule=rng.choice(["none", "epoch", "step"]),
                precision=rng.choice(["float32", "float32", "autocast", "scaler", "double"]), clip=rng.random() < 0.4,
                evaluation=rng.choice(["none", "whole_on_rank_zero", "counted", "padded_alone"]), checkpoint=rng.random() < 0.3,
                ema=rng.random() < 0.2, divided=True)


# Mistake -> (which loops can have it, claims of which at least one has to fail; a loop that deadlocks counts with run.*).
MISTAKES = {
    "epoch_forgotten": (lambda loop: loop.fed == "sampler" and loop.shuffle, {"data.order_changes"}),
    "sampler_forgotten": (lambda loop: loop.fed == "sampler" and not loop.shuffle, {"data.is_partitioned"}),
    "shuffled_by_all": (lambda loop: loop.fed == "sampler" and loop.shuffle, {"data.is_partitioned"}),
    "rank_zero_for_all": (lambda loop: loop.fed in ("sampler", "batch_sampler"), {"data.is_partitioned"}),
    "sampler_seeds_differ": (lambda loop: loop.fed in ("sampler", "batch_sampler") and loop.shuffle, {"data.is_partitioned", "data.is_one_dataset"}),
    "one_stream": (lambda loop: loop.fed in ("stream", "by_hand"), {"data.is_partitioned", "gradients.differ_in_no_sync"}),
    "split_by_own_seed": (lambda loop: loop.dataset == "split" and loop.fed in ("sampler", "batch_sampler"),
                          {"data.is_one_dataset", "data.is_partitioned"}),
    "loaded_on_rank_zero": (lambda loop: True, {"parameters.are_the_same"}),
    "rate_differs": (lambda loop: loop.schedule == "none", {"optimizer.has_one_setting"}),
    "schedule_on_rank_zero": (lambda loop: loop.schedule == "epoch", {"optimizer.has_one_setting", "parameters.are_the_same"}),
    "bare_forward": (lambda loop: True, {"forward.runs_through_the_wrapper"}),
    "not_wrapped": (lambda loop: True, {"forward.runs_through_the_wrapper"}),
    "never_synchronised": (lambda loop: loop.accumulation > 1, {"forward.runs_through_the_wrapper"}),
    "clipped_on_one_rank": (lambda loop: True, {"parameters.are_the_same", "gradients.are_the_same"}),
    "noise_on_one_rank": (lambda loop: True, {"parameters.are_the_same"}),
    "stops_early": (lambda loop: True, {"run.has_one_length"}),
    "skips_an_update": (lambda loop: loop.accumulation == 1, {"run.has_one_length", "parameters.are_the_same"}),
    "logs_on_rank_zero": (lambda loop: True, {"collectives.have_one_order"}),
    "layer_replaced": (lambda loop: loop.model == "linear", {"optimizer.owns_parameters_once"}),
    "padded_and_summed": (lambda loop: loop.evaluation == "padded_alone", {"data.evaluates_each_sample_once"}),
    "diverges": (lambda loop: loop.precision == "float32" and loop.optimizer == "sgd" and not loop.clip, {"values.stay_finite"}),
}


def listed(right, each):
    yield from (f"{seed}:right" for seed in range(right))
    for mistake, (can_have, claims) in MISTAKES.items():
        seeds = (seed for seed in range(1000, 9000) if can_have(draw(seed)))
        yield from (f"{seed}:{mistake}={','.join(sorted(claims))}" for seed, _ in zip(seeds, range(each)))
