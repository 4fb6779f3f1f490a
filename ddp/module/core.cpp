#include "ddp/module/core.h"

#include "ddp/comm/communicator.h"
#include "ddp/comm/instance_number.h"
#include "ddp/consistency/agreement.h"
#include "ddp/consistency/equal_values.h"
#include "ddp/consistency/rank_description.h"
#include "ddp/errors.h"
#include "ddp/module/buffers.h"
#include "ddp/module/join_under_way.h"
#include "ddp/module/registered_tensors.h"
#include "ddp/module/sync_bn_group.h"
#include "ddp/reducer/reducer.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

Reducer::Options reducer_options(const DistributedDataParallelOptions& options) {
  const bool finds_unused = options.find_unused_parameters && !options.static_graph;
  return {.bytes_caps = bucket_bytes_caps(options.bucket_cap_mb, options.bucket_cap_mb_list),
          .first_plan_has_caps = finds_unused || !options.bucket_cap_mb_list.empty(),
          .find_unused_parameters = finds_unused,
          .static_graph = options.static_graph,
          .skip_unused_buckets = options.skip_all_reduce_unused_params,
          .bucket = {.gradients_are_views = options.gradient_as_bucket_view,
                     .batched_copy = options.batched_grad_copy}};
}

}  // namespace

std::shared_ptr<DataParallelCore> DataParallelCore::create(
    std::shared_ptr<torch::nn::Module> module, DistributedDataParallelOptions options) {
  return std::shared_ptr<DataParallelCore>(
      new DataParallelCore(std::move(module), std::move(options)));
}

DataParallelCore::DataParallelCore(std::shared_ptr<torch::nn::Module> module,
                                   DistributedDataParallelOptions options)
    : module_(std::move(module)), options_(std::move(options)) {
  attach_group(nullptr);
  ModuleState state = state_of(*module_, options_);
  if (options_.init_sync) {
    report_if_it_throws([&] {
      broadcast_from(0, *communicator_, tensors_of(state), "broadcast of the initial state",
                     options_);
    });
  }
  Reducer::Options reducer = reducer_options(options_);
  reducer.ends_with_an_exception = has_layers_over_ranks_;
  reducer_ = Reducer::create(communicator_, std::move(state.trainable), std::move(state.frozen),
                             std::move(reducer));
  if (synchronises_buffers(options_)) buffers_ = std::make_unique<BufferSync>(module_, options_);
  registered_ = std::make_unique<RegisteredTensors>(*module_, options_);
}

// When an exception unwinds this rank, its peers may wait for it, so it posts that. First it lets
// passes end, which may still report errors and launch collectives on a group that may be destroyed
// next. Without an exception peers may still expect another step of it, so it posts how far it
// came.
DataParallelCore::~DataParallelCore() {
  if (reducer_) reducer_->let_passes_end();
  if (!notice_) return;
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    notice_->post_that_it_is_unwound();
  } else if (reducer_ && communicator_->world_size() > 1 && !communicator_->has_failed()) {
    notice_->post_end(
        {.issued_count = communicator_->issued_count(), .pass_count = reducer_->pass_count()});
  }
}

// Errors that all ranks find together are not posted.
void DataParallelCore::report_if_it_throws(const std::function<void()>& act, Refusal refusal) {
  try {
    act();
  } catch (const DisagreementError&) {
    throw;
  } catch (const UnevenInputsError&) {
    throw;
  } catch (const CommunicationError& error) {
    if (reducer_) reducer_->fail(error.what());
    throw;
  } catch (const ChangedBuffers& error) {
    // Peers may have exchanged them: what this rank issued next would take the place of that.
    notice_->post(error.what());
    if (reducer_) reducer_->fail_unless_failed(error.what());
    throw;
  } catch (const UsageError& error) {
    if (refusal == Refusal::of_this_forward) {
      notice_->post_refused_forward(error.what());
    } else {
      notice_->post(error.what());
    }
    throw;
  } catch (const std::exception& error) {
    notice_->post(first_line(error));
    throw;
  }
}

bool DataParallelCore::synchronises_gradients() const {
  return at::GradMode::is_enabled() && no_sync_depth_ == 0;
}

bool DataParallelCore::looks_at_outputs() const {
  return at::GradMode::is_enabled();
}

// Note [The lag of buffer synchronisation]
// The previous forward decides whether a forward synchronises buffers: after a local one (inside
// no_sync, or without gradients) it does not. PyTorch's observable behaviour, docs/semantics.md
// 1.3. A local one counts as it begins: it may throw on some ranks alone, which continue. A
// synchronised one that throws on some ranks is reported on all of them.
void DataParallelCore::before_forward(bool outputs_are_known, const std::type_info& output_type) {
  reducer_->forward_begins();
  notice_->begin_other();
  report_if_it_throws([&] { require_known_outputs(outputs_are_known, output_type); });
  const auto prepare = [&] {
    reducer_->check_finished(/*lag=*/1);
    if (at::GradMode::is_enabled()) reducer_->restore_hooks();
    const bool is_due = options_.buffer_sync_lag ? synchronise_buffers_next_ : no_sync_depth_ == 0;
    const bool synchronises_buffers = is_due && buffers_ && buffers_->has_any();
    const int source_of_buffers = join_ ? take_part_in_join(synchronises_buffers) : 0;
    if (synchronises_gradients()) {
      prepare_synchronised_forward();
      registered_->require_unchanged(*module_, communicator_->rank());
    } else {
      begin_local_forward(synchronises_buffers);
    }
    if (synchronises_buffers) buffers_->before_forward(*communicator_, source_of_buffers);
    if (options_.check_replicas_every > 0 && synchronises_gradients() && !join_ &&
        reducer_->forward_count() % options_.check_replicas_every == 0)
      require_equal_replicas(*communicator_, state_of(*module_, options_), synchronises_buffers);
  };
  report_if_it_throws(prepare, Refusal::of_this_forward);
}

void DataParallelCore::require_known_outputs(bool are_known,
                                             const std::type_info& output_type) const {
  if (are_known || !(options_.find_unused_parameters || options_.static_graph)) return;
  throw UsageError("DistributedDataParallel cannot find the tensors in the output of forward, a " +
                   c10::demangle(output_type.name()) + ", which " +
                   (options_.static_graph ? "static_graph" : "find_unused_parameters") +
                   " needs; specialise lockstep::OutputTensors for it (ddp/outputs.h)");
}

// Shadowing ranks count it too. First, so that ranks count alike whichever of them is refused.
void DataParallelCore::prepare_synchronised_forward() {
  notice_->begin_forward(reducer_->count_forward());
  reducer_->prepare();
}

void DataParallelCore::begin_local_forward(bool synchronises_buffers) {
  synchronise_buffers_next_ = false;
  const bool ranks_exchange_something =
      synchronises_buffers ||
      (has_layers_over_ranks_ && some_layer_is_in_training_over_ranks(*module_));
  if (ranks_exchange_something) notice_->begin_local_exchange();
}

void DataParallelCore::after_forward(const std::optional<std::vector<at::Tensor>>& outputs) {
  if (synchronises_gradients()) synchronise_buffers_next_ = true;
  if (buffers_) {
    report_if_it_throws([&] { buffers_->after_forward(*communicator_); }, Refusal::of_this_forward);
  }
  if (!at::GradMode::is_enabled()) return;
  if (buffers_) buffers_->forward_ran(outputs);
  report_if_it_throws([&] { reducer_->watch(outputs, synchronises_gradients()); });
}

void DataParallelCore::report_failure(const std::string& sentence) {
  notice_->post_of_the_program(sentence);
}

void DataParallelCore::forward_threw(const std::string& what) {
  if (buffers_) buffers_->forward_threw();
  notice_->post_thrown_forward("forward threw: " + what);
  if (synchronises_gradients()) reducer_->leave_out_forward();
}

void DataParallelCore::check_reduction_finished() const {
  reducer_->check_finished(/*lag=*/0);
}

void DataParallelCore::remove_autograd_hooks() {
  reducer_->remove_hooks();
}

// A rank without inputs in a join may be waiting for its peers' next step. That property comes
// first, so the exchange reports this call as the difference.
void DataParallelCore::update_trainable_parameters() {
  report_if_it_throws([&] {
    notice_->begin_other();
    reducer_->check_finished(/*lag=*/0);
    RankDescription description = describe_rank(*module_, options_, *member_, *communicator_);
    description.properties.insert(description.properties.begin(),
                                  {"what comes next in a join", "update_trainable_parameters()"});
    if (join_) {
      description.validation_error =
          "update_trainable_parameters() was called while a join of this instance is under way; "
          "finish() that one first";
    }
    if (!description.validation_error) description.validation_error = reducer_->changed_tensor();
    agree(*communicator_, description);
    ModuleState state = state_of(*module_, options_);
    reducer_->update_parameters(std::move(state.trainable), std::move(state.frozen));
    registered_->take_parameters(*module_);
  });
}

LoggingData DataParallelCore::logging_data() const {
  LoggingData data;
  data.world_size = communicator_->world_size();
  data.rank = communicator_->rank();
  data.module_name = module_->name();
  data.backend_name = communicator_->backend_name();
  data.broadcast_buffers = buffers_ != nullptr;
  data.find_unused_parameters = options_.find_unused_parameters;
  data.gradient_as_bucket_view = options_.gradient_as_bucket_view;
  data.static_graph = options_.static_graph;
  data.has_sync_bn = has_sync_batch_norm(*module_);
  data.join_uneven_inputs = has_begun_a_join_;
  reducer_->fill(data);
  return data;
}

void DataParallelCore::set_runtime_logging_sample_rate(int sample_rate) {
  reducer_->set_sample_rate(sample_rate);
}

BucketPlan DataParallelCore::bucket_plan() const {
  return reducer_->plan();
}

NoSyncGuard::NoSyncGuard(std::shared_ptr<DataParallelCore> core) : core_(std::move(core)) {
  ++core_->no_sync_depth_;
}

NoSyncGuard::~NoSyncGuard() {
  if (core_) --core_->no_sync_depth_;
}

}  // namespace lockstep
