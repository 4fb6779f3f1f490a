"""Draws a training loop from a seed: model, data and who draws it, workers, accumulation, wrapper, optimizers, schedule, precision,
evaluation, checkpoint; and the mistakes that loops.py can plant in it, each with the invariants that find it."""

import dataclasses
import random

LOADED = ("sampler", "batch_sampler", "own_sampler")
COMPARED = {"values.follow_one_process", "data.is_that_of_one_process"}


@dataclasses.dataclass
class Loop:
    world: int
    model: str
    dropout: bool  # where the model has one
    fed: str  # sampler, batch_sampler, own_sampler, stream, by_hand
    shuffle: bool
    dataset: str  # tensors, subset, concatenated, split
    tail: str  # even; padded: repeats fill the last round; dropped: what a shuffle leaves over; short: a smaller last batch
    workers: int
    persistent: bool
    made_anew: bool  # the loader, in each epoch
    peek: bool  # one batch is looked at before the training
    batch: int
    batches: int  # of an epoch
    epochs: int
    accumulation: int
    no_sync: bool
    wrapper: str  # ddp, views, static, hook: of DistributedDataParallel; averaged: gradients, by the program
    rewrapped: bool  # in each epoch
    optimizer: str
    schedule: str
    precision: str
    clip: str
    evaluation: str  # none, whole_on_rank_zero, counted, padded_alone, gathered, through_ddp
    checkpoint: bool
    ema: bool
    logs: str  # none, reduced, objects
    stops_together: bool  # in the last epoch, as rank 0 says
    divided: bool  # the loss, by accumulation
    ranks: int  # as many as share a global batch, also where one process draws it alone


def draw(seed):
    rng = random.Random(seed)
    fed = rng.choice(["sampler", "sampler", "sampler", "batch_sampler", "own_sampler", "stream", "by_hand"])
    loaded = fed != "by_hand"
    accumulation = rng.choice([1, 1, 2, 3])
    world = rng.choice([2, 2, 3, 4])
    model = rng.choice(["linear", "convolutions", "words", "frozen", "tied", "recurrent", "attention", "checkpointed", "alternating"])
    wrapper = rng.choice(["ddp", "ddp", "ddp", "views", "static", "hook", "averaged"])
    if wrapper == "static" and (accumulation > 1 or model == "alternating"):
        wrapper = "ddp"
    optimizer = rng.choice(["sgd", "momentum", "adam", "adamw_groups", "rmsprop", "two", "zero", "closure", "lbfgs"])
    precision = rng.choice(["float32", "float32", "autocast", "scaler", "scaler_skips", "double"])
    if optimizer in ("closure", "lbfgs"):
        accumulation = 1
        precision = "float32" if precision.startswith("scaler") else precision
    dropout, shuffle = rng.random() < 0.6, rng.random() < 0.7
    dataset = rng.choice(["tensors", "subset", "concatenated", "split"])
    tail = rng.choice(["even", "even", "padded", "dropped", "short"]) if fed in ("sampler", "batch_sampler") else "even"
    return Loop(world=world, model=model, dropout=dropout, fed=fed, shuffle=shuffle or tail == "dropped", dataset=dataset, tail=tail,
                workers=rng.choice([0, 0, 1, 2]) if loaded else 0, persistent=rng.random() < 0.5, made_anew=loaded and rng.random() < 0.3,
                peek=loaded and rng.random() < 0.2, batch=rng.randint(2, 4), batches=accumulation * rng.randint(2, 3),
                epochs=rng.randint(2, 3), accumulation=accumulation, no_sync=rng.random() < 0.7, wrapper=wrapper,
                rewrapped=wrapper == "ddp" and rng.random() < 0.1, optimizer=optimizer, schedule=rng.choice(["none", "epoch", "step"]),
                precision=precision, clip=rng.choice(["none", "none", "norm", "value"]),
                evaluation=rng.choice(["none", "whole_on_rank_zero", "counted", "padded_alone", "gathered", "through_ddp"]),
                checkpoint=rng.random() < 0.3, ema=rng.random() < 0.2, logs=rng.choice(["none", "none", "reduced", "objects"]),
                stops_together=rng.random() < 0.15, divided=True, ranks=world)


def alone(loop):
    """One process that draws the same global batches."""
    return dataclasses.replace(loop, world=1, batch=loop.batch * loop.ranks)


def has_random(loop):
    return loop.dropout and loop.model in ("words", "tied", "attention")


def keeps_parameters(loop):
    """ZeroRedundancyOptimizer sends each rank the others' parameters, so that what differs is overwritten."""
    return loop.optimizer != "zero"


def can_follow(loop):
    """Whether one process computes the same but for rounding: nothing depends on which samples share a rank."""
    return is_wrapped(loop) and loop.tail == "even" and loop.model != "convolutions" and not has_random(loop) and loop.optimizer != "lbfgs"


def is_wrapped(loop):
    return loop.wrapper != "averaged"


def is_plain(loop):
    """Steps and gradients are what the planted mistake finds them to be."""
    return loop.optimizer not in ("closure", "lbfgs") and not loop.precision.startswith("scaler")


# Mistake -> (which loops can have it, invariants of which at least one has to fail; a loop that deadlocks counts with run.*).
MISTAKES = {
    "epoch_forgotten": (lambda loop: loop.fed == "sampler" and loop.shuffle, {"data.order_changes"}),
    "sampler_forgotten": (lambda loop: loop.fed == "sampler" and not loop.shuffle, {"data.is_partitioned"}),
    "shuffled_by_all": (lambda loop: loop.fed == "sampler" and loop.shuffle, {"data.is_partitioned"}),
    "rank_zero_for_all": (lambda loop: loop.fed in LOADED, {"data.is_partitioned"}),
    "sampler_seeds_differ": (lambda loop: loop.fed in ("sampler", "batch_sampler") and loop.shuffle,
                             {"data.is_partitioned", "data.is_one_dataset"}),
    "one_stream": (lambda loop: loop.fed == "stream" or (loop.fed == "by_hand" and is_wrapped(loop) and not has_random(loop)),
                   {"data.is_partitioned", "gradients.differ_in_no_sync"}),
    "tail_never_drawn": (lambda loop: loop.tail == "dropped" and not (loop.stops_together and loop.epochs == 2), {"data.is_partitioned"}),
    "split_by_own_seed": (lambda loop: loop.dataset == "split" and loop.fed in LOADED, {"data.is_one_dataset", "data.is_partitioned"}),
    "loaded_on_rank_zero": (keeps_parameters, {"parameters.are_the_same"}),
    "rate_differs": (lambda loop: loop.schedule == "none", {"optimizer.has_one_setting"}),
    "schedule_on_rank_zero": (lambda loop: loop.schedule == "epoch" and not loop.checkpoint,
                              {"optimizer.has_one_setting", "parameters.are_the_same"}),
    "state_on_rank_zero": (lambda loop: loop.checkpoint and loop.optimizer in ("momentum", "adam", "rmsprop"),
                           {"optimizer.has_one_state", "parameters.are_the_same"}),
    "bare_forward": (is_wrapped, {"forward.runs_through_the_wrapper"}),
    "not_wrapped": (lambda loop: is_wrapped(loop) and not loop.rewrapped, {"forward.runs_through_the_wrapper"}),
    "never_synchronised": (lambda loop: loop.accumulation > 1 and is_wrapped(loop) and not loop.rewrapped,
                           {"forward.runs_through_the_wrapper"}),
    "average_forgotten": (lambda loop: not is_wrapped(loop), {"forward.runs_through_the_wrapper"}),
    "average_in_part": (lambda loop: not is_wrapped(loop) and keeps_parameters(loop),
                        {"parameters.are_the_same", "gradients.are_the_same"}),
    "unfrozen_late": (lambda loop: loop.model == "frozen" and is_wrapped(loop) and not loop.rewrapped,
                      {"gradients.are_the_same", "parameters.are_the_same"}),
    "clipped_on_one_rank": (keeps_parameters, {"parameters.are_the_same", "gradients.are_the_same"}),
    "noise_on_one_rank": (keeps_parameters, {"parameters.are_the_same"}),
    "stops_early": (lambda loop: True, {"run.has_one_length", "collectives.have_one_order"}),
    "skips_an_update": (lambda loop: loop.accumulation == 1 and is_plain(loop),
                        {"run.has_one_length", "parameters.are_the_same", "collectives.have_one_order"}),
    "logs_on_rank_zero": (lambda loop: loop.logs != "reduced", {"collectives.have_one_order"}),
    "layer_replaced": (lambda loop: loop.model == "linear" and is_wrapped(loop) and not loop.precision.startswith("scaler"),
                       {"optimizer.owns_parameters_once"}),
    "half_forgotten": (lambda loop: loop.optimizer == "two" and is_wrapped(loop), {"optimizer.owns_parameters_once"}),
    "padded_and_summed": (lambda loop: loop.evaluation == "padded_alone" and loop.tail in ("even", "short"), {"data.evaluates_each_sample_once"}),
    "diverges": (lambda loop: loop.precision == "float32" and loop.optimizer == "sgd" and loop.clip == "none", {"values.stay_finite"}),
}
# Mistakes that all ranks make alike, so that only one process shows them.
MISTAKES_OF_ALL = {
    "rate_scaled": (lambda loop: loop.optimizer in ("sgd", "momentum"), COMPARED),
    "summed": (lambda loop: loop.clip == "none" and loop.optimizer in ("sgd", "momentum", "adam") and loop.precision != "scaler_skips",
               COMPARED),
    "not_divided": (lambda loop: loop.accumulation > 1 and loop.clip == "none", COMPARED),
    "clear_forgotten": (lambda loop: is_plain(loop) and loop.clip == "none", COMPARED),
    "batch_left_out": (lambda loop: loop.clip == "none", COMPARED),
    "clipped_before_averaging": (lambda loop: loop.accumulation > 1 and loop.no_sync and is_plain(loop), COMPARED),
    "other_seed": (lambda loop: loop.fed in LOADED and loop.shuffle, COMPARED),
}


def listed(right, each, compared_right, compared_each):
    """SEED:MISTAKE, with =INVARIANTS where it is wrong, and +one where it is compared with one process."""
    yield from (f"{seed}:right" for seed in range(right))
    for mistake, (can_have, invariants) in MISTAKES.items():
        seeds = (seed for seed in range(1000, 9000) if can_have(draw(seed)))
        yield from (f"{seed}:{mistake}={','.join(sorted(invariants))}" for seed, _ in zip(seeds, range(each)))
    following = [seed for seed in range(20000, 29000) if can_follow(draw(seed))]
    yield from (f"{seed}:right+one" for seed in following[:compared_right])
    for mistake, (can_have, invariants) in {**MISTAKES, **MISTAKES_OF_ALL}.items():
        seeds = (seed for seed in following if can_have(draw(seed)))
        yield from (f"{seed}:{mistake}+one={','.join(sorted(invariants | COMPARED))}" for seed, _ in zip(seeds, range(compared_each)))
