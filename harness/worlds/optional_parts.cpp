// The parts of replicas, shards and optimizers that a subject need not offer.
#include "harness/worlds/subject.h"

namespace lockstep {

std::vector<at::Tensor> Replica::outputs(const at::Tensor&) {
  throw Unsupported("this subject takes models with one output alone");
}

NestedOutputs Replica::nested_outputs(const at::Tensor&) {
  throw Unsupported("this subject takes models with one output alone");
}

at::Tensor Replica::opaque_output(const at::Tensor&) {
  throw Unsupported("this subject takes models whose output is a tensor alone");
}

void Replica::no_sync(const std::function<void()>&) {
  throw Unsupported("this subject has no no_sync");
}

std::shared_ptr<void> Replica::no_sync() {
  throw Unsupported("this subject has no guards of no_sync");
}

void Replica::step_in_backward(std::shared_ptr<torch::optim::Optimizer>) {
  throw Unsupported("this subject takes no step in backward");
}

void Replica::join(JoinKind kind, const std::function<void()>&,
                   const std::vector<ShardedOptimizer*>&) {
  throw Unsupported("this subject has no join of the kind '" + word_of(kind) + "'");
}

void Replica::join_beside(JoinKind kind, const std::function<void()>& steps,
                          const std::vector<ShardedOptimizer*>& optimizers,
                          const std::vector<BesideReplica*>& beside) {
  if (!beside.empty()) throw Unsupported("this subject's join takes no calls of the program's own");
  join(kind, steps, optimizers);
}

void Replica::begin_anew() {
  throw Unsupported("this subject does not continue after an error that ended its training");
}

void Replica::check_equal(bool) {
  throw Unsupported("this subject does not compare replicas");
}

void Replica::report_failure(const std::string&) {
  throw Unsupported("this subject reports no failures to its peers");
}

at::Tensor Replica::left_out(const at::Tensor&) {
  throw Unsupported("this subject does not say what its communication hook left out");
}

std::string Replica::save_hook() {
  throw Unsupported("this subject does not save its communication hook");
}

void Replica::load_hook(const std::string&) {
  throw Unsupported("this subject does not load its communication hook");
}

void Replica::remove_autograd_hooks() {
  throw Unsupported("this subject does not give its hooks of autograd back");
}

void Replica::update_trainable_parameters() {
  throw Unsupported("this subject's parameters cannot be frozen or unfrozen later");
}

void Replica::parameters_changed_unreported() {
  throw Unsupported("this subject does not find out which parameters were frozen or unfrozen");
}

void Replica::update_process_group(const Group&) {
  throw Unsupported("this subject stays with the ranks that it was given");
}

namespace {

[[noreturn]] void no_parts_of_a_pass() {
  throw Unsupported("this subject's sampler draws whole passes alone");
}

}  // namespace

at::Tensor ShardedOptimizer::step_with(const std::function<at::Tensor()>&) {
  throw Unsupported("this subject's sharded optimizer takes no closure");
}

void ShardedOptimizer::zero_grad(bool) {
  throw Unsupported("this subject's sharded optimizer clears no gradients");
}

void Shard::begin(std::optional<int64_t>) {
  no_parts_of_a_pass();
}

std::vector<int64_t> Shard::next(int64_t) {
  no_parts_of_a_pass();
}

std::string Shard::save(std::optional<int64_t>) {
  no_parts_of_a_pass();
}

void Shard::load(const std::string&) {
  no_parts_of_a_pass();
}

void Shard::go_on_with_a_copy() {
  no_parts_of_a_pass();
}

void Shard::turn_to_the_other_copy() {
  no_parts_of_a_pass();
}

}  // namespace lockstep
