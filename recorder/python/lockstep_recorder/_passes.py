"""Models, their forwards and backwards."""
import collections
import time
import weakref

import torch

from ._collectives import members_of, name_of
from ._digests import moved, plain_tensor, sample_of
from ._models import FlatModel, Marks, Model, clean, group_of, sent, settings_of, touch
from ._objects import field, other_generators

SAMPLE_MOST = 4096  # Elements of a frozen parameter, or of a buffer before its broadcast, that are digested.


def averages_later(ddp):
    """Whether the comm hook of local SGD leaves each rank the gradients of the next backward, or those of its own subgroup."""
    def does(state):
        subgroup = state.subgroup if state.post_local_gradient_allreduce else None
        is_whole = subgroup is not None and subgroup.size() == torch.distributed.get_world_size(state.process_group)
        return state.iter >= state.start_localSGD_iter and not is_whole
    return any(does(state) for _, state in field(ddp, "_comm_hooks") or () if type(state).__name__ == "PostLocalSGDState")


class Passes:
    """Models, their forwards and backwards."""

    def __init__(self, record):
        self.record, self.models, self.count = record, [], 0
        self.sharded, self.moved = [], {}  # Marks of each parameter as it was moved, by id.
        self.restored, self.copies = {}, []  # Modules that the program copied or loaded values into; those that nothing trains.

    def forget_lists(self):
        """Another part of a step begins, by which models may have other parameters."""
        for model in self.live_models():
            model.listed = None

    def live_models(self):
        """Each stays while it is looked at: an unreachable one may be collected at any allocation."""
        for model in tuple(self.models):
            wrapper, module = model.wrapper(), model.module()
            if wrapper is not None and module is not None:
                yield model
            else:
                self.models.remove(model)

    def model_of(self, wrapper):
        return next((model for model in self.live_models() if model.wrapper() is wrapper), None)

    def record_parameters(self, model, is_certain=False, is_update=False):
        """Recorded where they may have changed since they were last; of a model that is frozen for a while, the frozen ones alone are."""
        parameters = model.parameters()
        held = touch(parameters)
        if is_certain or model.recorded is None or parameters and (not model.recorded.are_of(parameters) or model.held != held):
            replaced = model.replaced_since() if model.wrapped_by == "DistributedDataParallel" else []
            if replaced != model.replaced:
                model.replaced = replaced
                self.record.fact("replaced", model=model.name, tensors=replaced[:1000])
            model.recorded, model.held = Marks(parameters), held
            if not is_update or self.record.is_due(parameters):
                self.record_parts(model, "parameters", parameters)
        self.record_frozen(model)

    def record_frozen(self, model):
        """Some elements of the parameters that require no gradient, where they may have changed."""
        frozen, is_first = model.frozen(), model.recorded_frozen is None
        held = touch(frozen) if frozen and self.record.is_due(frozen) else model.held_frozen
        if is_first or not model.recorded_frozen.are_of(frozen) or held != model.held_frozen:
            model.recorded_frozen, model.held_frozen = Marks(frozen), held
            if frozen and (is_first or self.record.is_due(frozen)):
                self.record.digests(model.name, "frozen", [(name, sample_of(plain_tensor(p), SAMPLE_MOST)) for name, p in frozen])

    def record_parts(self, model, role, named):
        shards = model.shards()
        if shards != model.shards_recorded:
            model.shards_recorded = shards
            self.record.fact("shards", of=model.name, tensors=shards)
        self.record.digests(model.name, role, named)

    def add(self, wrapper, module, wrapped_by, **about):
        model = (FlatModel if wrapped_by == "FullyShardedDataParallel" else Model)("model %d" % self.count, wrapper, module, wrapped_by)
        self.count += 1
        self.models.append(model)
        self.describe(model, module, wrapped_by, about)
        self.record_parameters(model)
        return model

    def describe(self, model, module, wrapped_by, about):
        modules = list(torch.nn.Module.modules(module))
        drops = sum(isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.p > 0 or
                    type(field(m, "dropout")) is float and field(m, "dropout") > 0 for m in modules)
        norms = sum(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and not isinstance(m, torch.nn.SyncBatchNorm) for m in modules)
        frozen = [name for name, p in model.all_parameters() if not p.requires_grad]
        names = collections.defaultdict(list)
        for name, p in torch.nn.Module.named_parameters(module, remove_duplicate=False):
            names[id(p)].append(clean(name))
        layers = collections.Counter(type(m).__name__ for m in modules if type(m).__module__.startswith("torch.nn."))
        model.drops = drops > 0
        settings = settings_of(modules) if wrapped_by == "DistributedDataParallel" else None  # Which divides no layer.
        self.record.at("construction")
        self.record.fact(model.name, kind=type(module).__name__, wrapper=wrapped_by, dropouts=drops, batch_norms=norms, layers=dict(layers), settings=settings,
                         parameters=len(model.parameters()), frozen=frozen[:1000],
                         tied=[each for each in names.values() if len(each) > 1][:100], **about)

    def wrap(self, ddp, /, *args, **kwargs):
        module = args[0] if args else kwargs["module"]
        self.record.at("construction")
        ranks = members_of(group_of(*args, **kwargs))
        done = self.record.collectives.issue("ddp_construction", name_of(ranks), dtype="parameters",
                                             elements=sum(1 for _ in torch.nn.Module.parameters(module)))
        _, error = yield
        if error is None:
            done()
            group = name_of(ranks)
            model = self.add(ddp, module, "DistributedDataParallel", broadcast_buffers=ddp.broadcast_buffers,
                             find_unused_parameters=ddp.find_unused_parameters, static_graph=field(ddp, "static_graph"),
                             ignored=sorted(map(str, field(ddp, "parameters_to_ignore") or ()))[:1000],
                             **{"ranks": ranks} if group != "world" else {})
            model.group = group
            self.buffers.keep(ddp, module)

    def watch(self, module):
        if self.model_of(module) is None:
            model = self.add(module, module, "watched")
            if self.record.generator:
                self.move_model(model)

    def move(self, parameters):
        """Moves each parameter, but for one that still is as it was moved."""
        with torch.no_grad():
            for parameter in parameters:
                before, now = self.moved.get(id(parameter)), [("", parameter)]
                if before is None or not before.are_of(now):
                    parameter.copy_(moved(parameter, self.record.generator))
                    self.moved[id(parameter)] = Marks(now)

    def move_model(self, model):
        """The model, before its first forward."""
        if not model.is_moved:
            self.move(parameter for _, parameter in model.parameters())
        model.is_moved = True

    def moved_inputs(self, ddp, inputs):
        model = self.model_of(ddp)
        if model is None:
            return inputs
        self.move_model(model)
        return torch.utils._pytree.tree_map(lambda value: moved(value, self.record.generator), inputs)

    def prepare_forward(self, ddp, /, *args, **kwargs):
        model = self.model_of(ddp)
        if model is not None:
            self.record.at("forward")
            self.record.loaders.take(model, [args, kwargs])
        yield

    def send_buffers(self, ddp):
        model = self.model_of(ddp)
        if model is None:
            return
        written = model.written_buffers() if self.record.is_due(model.parameters()) else []
        if written:
            self.record.digests(model.name, "written", [(name, sample_of(plain_tensor(t), SAMPLE_MOST)) for name, t in written])
        done = self.record.collectives.issue("ddp_buffers", model.group, **sent(model.buffers()))
        _, error = yield
        if error is None:
            done()
            model.buffers_came = True

    def begin_forward(self, ddp):
        model = self.model_of(ddp)
        if model is None:
            return
        model.depth += 1
        if model.depth > 1:
            return
        self.record.at("forward")
        model.listed = None
        if torch.is_grad_enabled():
            model.kind = "synchronised" if ddp.require_backward_grad_sync and not averages_later(ddp) else "no_sync"
            model.forwards, model.forwards_of_step = model.forwards + 1, model.forwards_of_step + 1
        self.record_forward(model)

    def record_forward(self, model):
        if model.buffers_came:
            model.buffers_came = False
            if self.record.is_due(model.parameters()):
                self.record.digests(model.name, "buffers", model.buffers())
        module = model.module()
        model.is_training = module.training
        if module.training and torch.is_grad_enabled():
            self.record_parameters(model)
            model.others, model.state = model.layers_in_another_mode(), self.generator_state(module)
            self.record.digests(model.name, "random", [("generator", model.state), *other_generators()])
        elif not module.training and not model.is_evaluated and self.record.is_due(model.parameters()):
            model.is_evaluated = True
            self.record.digests(model.name, "evaluated", model.parameters())

    def end_forward(self, ddp, began):
        model = self.model_of(ddp)
        if model is not None:
            model.depth -= 1
            self.record.span("forward", began)
            if model.drops and model.depth == 0 and model.state is not None:
                model.drew = not torch.equal(model.state, self.generator_state(model.module()))
                model.state = None

    def generator_state(self, module):
        device = next((p.device for p in torch.nn.Module.parameters(module)), torch.device("cpu"))
        return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()

    def backward(self, tensors=None, *args, **kwargs):
        self.forget_lists()
        models, sends = {}, []
        for model in self.live_models():
            models[model] = self.before_backward(model)
            if model.kind == "synchronised" and model.wrapped_by == "DistributedDataParallel":
                sends.append((model.group, sent(model.parameters())))
        self.record.at("backward")
        losses = tensors if type(tensors) in (list, tuple) else [tensors]
        self.record.gradients.begin_backward(losses)
        self.record_terms(losses)
        self.record.divided_layers.look(losses)
        done = [self.record.collectives.issue("ddp_backward", group, **what) for group, what in sends]
        began = time.monotonic_ns()
        _, error = yield
        self.record.span("backward", began)
        if error is not None:
            return
        for each in done:
            each()
        self.forget_lists()
        self.adopt()
        self.record.at("backward")
        for model in self.live_models():
            marks, about = models.get(model, (None, {}))
            if marks is None or not marks.are_of(model.marked()):
                self.end_backward(model, tensors, about)
        self.leave_strangers()

    def before_backward(self, model):
        """Marks of its gradients, and how they differ from what was recorded of them last."""
        gradients, about = model.marked(), {}
        if model.taken is not None:
            about["kept"] = model.taken.are_of(gradients) and any(t is not None for _, t in gradients)
        if model.has_backward and not model.seen[0].are_of(gradients):
            about["changed"] = any(touch(gradients))  # and not cleared
        return Marks(gradients), about

    def end_backward(self, model, loss, about):
        module, gradients = model.module(), model.gradients()
        outside = {"DistributedDataParallel": "bare", "watched": "by hand"}.get(model.wrapped_by, "synchronised")
        kind = model.kind or ("again" if model.forwards_of_step else outside)
        is_local = field(module, "_sync_gradients") is False  # FullyShardedDataParallel's, in no_sync.
        training = model.is_training if model.forwards else field(module, "training")
        others = model.others if model.forwards else model.layers_in_another_mode()
        about.update({"others": others[:100]} if others else {}, **{"drew": True} if model.drew else {})
        self.record.fact("backward", model=model.name, kind="no_sync" if is_local else kind, loss=loss, training=training,
                         forwards=model.forwards, **about)
        if is_local or kind != "synchronised":
            if not any(id(p) in self.record.gradients.hooked for _, p in model.parameters()):
                self.record.gradients.leave_behind(model.name, gradients)
        else:
            self.record.gradients.average(model.name, gradients)  # By a communication hook.
        if not is_local:
            is_due = self.record.is_due(gradients)
            if is_due:
                self.record_parts(model, "gradients", gradients)
            model.seen, model.has_backward = (Marks(model.marked()), touch(gradients) if is_due else None), True
        model.kind, model.forwards, model.taken, model.drew = None, 0, None, False

    def shard(self, /, *args, **kwargs):
        """A module whose parameters the ranks have parts of from here on. It is not known yet which one is the model's root."""
        module = args[0] if args else kwargs["module"]
        result, error = yield
        if error is None:
            name = type(module).__name__ if hasattr(type(module), "fsdp_modules") else "fully_shard"
            self.sharded += [(weakref.ref(each), name) for each in (module if type(module) in (list, tuple) else [module])]

    def adopt(self):
        """Makes models of the roots among sharded modules."""
        if not self.sharded:
            return
        sharded, self.sharded = [(reference(), name) for reference, name in self.sharded], []
        roots = [model.module() for model in self.live_models()]
        inner = roots + [module for module, _ in sharded if module is not None]
        known = {id(each) for module in inner for each in torch.nn.Module.modules(module) if each is not module}
        known.update(map(id, roots))
        for module, name in sharded:
            if module is not None and id(module) not in known:
                known.add(id(module))
                self.add(module, module, name)

    def owners(self):
        owners = {}
        for model in self.live_models():
            owners.update(model.owned())
        return owners
