#include "tests/worlds/forked/acts.h"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <atomic>
#include <cfenv>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <pthread.h>

namespace lockstep {

void all_reduce(RankContext& here, int64_t elements) {
  std::vector<at::Tensor> tensors{torch::full({elements}, here.rank() + 1.0)};
  here.group()->allreduce(tensors)->wait();
  here.record("sum", tensors[0]);
}

void look_before_waiting(RankContext& here) {
  std::vector<at::Tensor> first{torch::full({2}, here.rank() + 1.0)}, second{torch::ones({1})};
  const auto work = here.group()->allreduce(first);
  here.group()->allreduce(second)->wait();
  here.record("before waiting", first[0]);
  work->wait();
  here.record("after waiting", first[0]);
}

void poll(RankContext& here) {
  std::vector<at::Tensor> tensors{torch::ones({1})};
  const auto from = here.now_ns();
  const auto work = here.group()->allreduce(tensors);
  while (!work->isCompleted()) {
  }
  here.record("ns", std::vector<int64_t>{here.now_ns() - from});
}

void pass_backward(RankContext& here) {
  const auto weight = torch::ones({4}, at::requires_grad());
  const auto input = torch::ones({4});
  const auto loss = (weight * input).sum();
  weight.register_hook([&](const at::Tensor& gradient) {
    here.record("in the hook", std::vector<int64_t>{here.now_ns()});
    return gradient + 1;
  });
  const auto from = here.now_ns();
  loss.backward();
  here.record("times", std::vector<int64_t>{from, here.now_ns()});
}

// The first half of the ranks and the second, each in a group of its own.
void all_reduce_in_halves(RankContext& here) {
  const int half = here.size() / 2, first = here.rank() < half ? 0 : half;
  std::vector<int> ranks(static_cast<size_t>(half));
  std::iota(ranks.begin(), ranks.end(), first);
  std::vector<at::Tensor> tensors{torch::full({1}, here.rank())};
  here.group_of(ranks)->allreduce(tensors)->wait();
  here.record("sum", tensors[0]);
  here.record("rank in group", {here.group_of(ranks)->getRank()});
}

void split_off_groups(RankContext& here) {
  const auto world = here.group();
  // No two groups may have the same name, and by default those of the same ranks do.
  const auto reduce_in = [&](const std::vector<int>& ranks, const std::string& name) {
    const auto part = world->splitGroup(ranks, {}, {}, name, {});
    std::vector<at::Tensor> tensors{torch::full({1}, here.rank() + 1.0)};
    part->allreduce(tensors)->wait();
    here.record("sum", tensors[0]);
    here.record("rank in group", {part->getRank()});
  };
  here.enter(0, "halves");
  reduce_in(here.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3},
            "half " + std::to_string(here.rank() / 2));
  for (const int step : {1, 2}) {
    if (here.rank() == 3) break;
    here.enter(step, "three");
    reduce_in({0, 1, 2}, "three " + std::to_string(step));
  }
}

void train_a_step(RankContext& here) {
  torch::nn::Linear model(8, 4);
  model->forward(torch::ones({2, 8})).sum().backward();
  std::vector<at::Tensor> gradient{model->weight.grad().div(here.size())};
  here.group()->allreduce(gradient)->wait();
  here.record("gradient", gradient[0]);
}

void pass_backward_on_four_threads(RankContext& here, int64_t elements) {
  const auto weight = torch::ones({elements}, here.device()).requires_grad_();
  const auto loss = (weight * weight).sum();
  at::set_num_threads(4);
  loss.backward();
  at::set_num_threads(1);
  here.record("gradient", weight.grad());
}

void train_a_convolution(RankContext& here) {
  torch::nn::Conv2d model(torch::nn::Conv2dOptions(1, 2, 1));
  model->to(here.device());
  model->forward(torch::ones({4, 1, 3, 3}, here.device())).sum().backward();
}

// Values whose sum shows the order in which it was made.
void all_reduce_reals(RankContext& here) {
  for (const int64_t elements : {1, 5, 64, 1001}) {
    auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(here.rank() + 1));
    std::vector<at::Tensor> tensors{torch::randn({elements}, generator)};
    here.group()->allreduce(tensors)->wait();
    here.record("sum", tensors[0]);
  }
}

// Every collective that both backends have.
void all_collectives(RankContext& here) {
  auto group = here.group();
  const int64_t size = here.size(), own = here.rank();
  const auto value = [&](int64_t elements) { return at::arange(elements, at::kFloat) + 10 * own; };
  const auto empty = [&] {
    std::vector<at::Tensor> parts;
    for (int64_t rank = 0; rank < size; ++rank) parts.push_back(torch::zeros({2}));
    return parts;
  };
  const auto record = [&](const char* name, const std::vector<at::Tensor>& tensors) {
    here.record(name, torch::cat(tensors));
  };
  std::vector<at::Tensor> tensors{value(3)};
  group->broadcast(tensors, {.rootRank = size - 1})->wait();
  record("broadcast", tensors);
  for (const auto reduction : {c10d::ReduceOp::AVG, c10d::ReduceOp::MAX, c10d::ReduceOp::PRODUCT}) {
    std::vector<at::Tensor> reduced{value(3)};
    group->allreduce(reduced, {.reduceOp = reduction})->wait();
    record("allreduce", reduced);
  }
  std::vector<at::Tensor> to_root{value(3)};
  group->reduce(to_root, {.rootRank = 0})->wait();
  if (own == 0) record("reduce", to_root);
  std::vector<std::vector<at::Tensor>> gathered{empty()};
  std::vector<at::Tensor> input{value(2)};
  group->allgather(gathered, input)->wait();
  record("allgather", gathered[0]);
  auto whole = torch::zeros({2 * size}), part = value(2);
  group->_allgather_base(whole, part)->wait();
  record("_allgather_base", {whole});
  std::vector<std::vector<at::Tensor>> at_root, from_root;
  if (own == 0) at_root = {empty()};
  group->gather(at_root, input, {.rootRank = 0})->wait();
  if (own == 0) record("gather", at_root[0]);
  std::vector<at::Tensor> scattered{torch::zeros({2})};
  if (own == 0) from_root = gathered;
  group->scatter(scattered, from_root, {.rootRank = 0})->wait();
  record("scatter", scattered);
  auto mixed = torch::zeros({size}), sent = value(size);
  std::vector<int64_t> equal_parts;
  group->alltoall_base(mixed, sent, equal_parts, equal_parts)->wait();
  record("alltoall_base", {mixed});
  std::vector<at::Tensor> message{value(2)};
  const int next = static_cast<int>((own + 1) % size),
            before = static_cast<int>((own + size - 1) % size);
  auto sending = group->send(message, next, 3);
  std::vector<at::Tensor> arrived{torch::zeros({2})};
  group->recv(arrived, before, 3)->wait();
  sending->wait();
  record("recv", arrived);
  group->barrier()->wait();
}

// The schedule decides which rank comes first.
void race(RankContext& here) {
  here.record("place", std::vector<int64_t>{here.store()->add("came", 1)});
}

void find_in_store(RankContext& here) {
  const auto store = here.store();
  if (here.rank() == 0) {
    torch::ones({1}).mul_(2);
    here.record("ns", std::vector<int64_t>{here.now_ns()});
    store->set("computed", "x");
    return;
  }
  while (!store->check({"computed"})) {
  }
  here.record("ns", std::vector<int64_t>{here.now_ns()});
}

// Changes all that a process has one of, and looks whether its own changes are what it finds.
void meddle(RankContext& here) {
  const auto mine = std::to_string(here.rank());
  const volatile float tiny = std::numeric_limits<float>::denorm_min();
  here.record("found", std::vector<int64_t>{at::GradMode::is_enabled(), at::get_num_threads(),
                                            c10::InferenceMode::is_enabled(),
                                            at::autocast::is_autocast_cache_enabled(),
                                            std::fegetround() == FE_TONEAREST, tiny * 4 > 0});
  at::autocast::set_autocast_cache_enabled(false);
  std::fesetround(FE_UPWARD);
  at::globalContext().setFlushDenormal(true);
  at::GradMode::set_enabled(here.rank() == 1);
  at::set_num_threads(2);
  at::set_default_dtype(here.rank() == 1 ? caffe2::TypeMeta::Make<double>()
                                         : caffe2::TypeMeta::Make<float>());
  setenv("LOCKSTEP_TOY", mine.c_str(), 1);
  std::vector<at::Tensor> draws;
  int64_t kept_grad_mode = 1, kept_dtype = 1, kept_variable = 1;
  for (int i = 0; i < 3; ++i) {
    draws.push_back(torch::rand({2}, at::kFloat));
    here.group()->barrier()->wait();
    kept_grad_mode &= at::GradMode::is_enabled() == (here.rank() == 1);
    kept_dtype &=
        (at::get_default_dtype() == caffe2::TypeMeta::Make<double>()) == (here.rank() == 1);
    kept_variable &= getenv("LOCKSTEP_TOY") == mine;
  }
  here.record("kept", std::vector<int64_t>{kept_grad_mode, kept_dtype, kept_variable,
                                           getenv("RANK") == mine});
  here.record("draws", torch::cat(draws));
}

void compute(RankContext& here, bool before_waiting) {
  std::vector<at::Tensor> tensors{torch::ones({1})};
  auto other = torch::ones({1});
  auto work = here.group()->allreduce(tensors);
  if (!before_waiting) work->wait();
  for (int i = 0; i < 3; ++i) other.add_(1);
  work->wait();
  here.group()->allreduce(tensors)->wait();
}

// Three all-reduces, of which the guilty rank leaves out one, adds one or makes another one.
[[gnu::noinline]] void write_to(volatile int* nobody) {
  *nobody = 1;
}

void part_in(const std::string& how, RankContext& here, bool is_guilty) {
  for (int64_t round = 1; round <= 3; ++round) {
    here.enter(static_cast<int>(round), "round");
    if (is_guilty && how == "skip" && round == 3) return;
    if (is_guilty && how == "swap" && round == 2) {
      std::vector<at::Tensor> tensors{torch::ones({2})};
      here.group()->broadcast(tensors, {})->wait();
    }
    all_reduce(here, is_guilty && how == "resize" && round == 2 ? 5 : 2);
    if (is_guilty && how == "loop" && round == 2)
      for (std::atomic<int> i = 0;; ++i) {
      }
    if (is_guilty && how == "lock" && round == 2) {
      pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
      pthread_mutex_lock(&mutex);
      pthread_mutex_lock(&mutex);
    }
    if (is_guilty && how == "crash" && round == 2) write_to(nullptr);
    if (is_guilty && how == "throw" && round == 2) throw std::runtime_error("a toy's own error");
  }
  if (is_guilty && how == "add") all_reduce(here, 2);
}

void four_rounds(RankContext& here) {
  for (int round = 0; round < 4; ++round) {
    here.enter(round, "round");
    all_reduce(here, 2);
  }
}

}  // namespace lockstep
