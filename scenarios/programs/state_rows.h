// The records of a ProgramSpec's model after a step, beside what one process holds.
#pragma once

#include "harness/rank/tensors.h"
#include "harness/verdict/compare.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/programs/buffers.h"
#include "scenarios/programs/expected/follow.h"
#include "scenarios/programs/run.h"

#include <torch/torch.h>

#include <optional>
#include <utility>

namespace lockstep::scenarios::programs {

// The rows of a model at a moment, beside what they should hold.
class StateRows {
 public:
  // `action`: the one after which it is, if any.
  StateRows(const History& h, Moment at, const ProgramSpec& c, const FollowedModel& model,
            int number, const Action* action)
      : h_(h), at_(std::move(at)), c_(c), model_(model), number_(number), action_(action) {}

  std::vector<Comparison> gradients() {
    const auto& replicas = model_.replicas();
    for (size_t p = 0; p < replicas.parameter_count(); ++p) {
      std::vector<at::Tensor> by_rank;
      for (int rank = 0; rank < c_.world.size; ++rank)
        by_rank.push_back(seen(rank, replicas.gradient(rank, p)));
      add(model_.parameters()[p] + ".grad", by_rank, model_.form(p), p);
    }
    return std::exchange(rows_, {});
  }

  std::vector<Comparison> parameters() {
    const auto& replicas = model_.replicas();
    for (size_t p = 0; p < replicas.parameter_count(); ++p) {
      std::vector<at::Tensor> by_rank;
      for (int rank = 0; rank < c_.world.size; ++rank)
        by_rank.push_back(seen(rank, replicas.parameter(rank, p)));
      add(model_.parameters()[p], by_rank, model_.form(p));
    }
    return std::exchange(rows_, {});
  }

  std::vector<Comparison> buffers() {
    for (size_t b = 0; b < c_.buffers.size(); ++b) {
      const auto name = "buffer" + std::to_string(b);
      const auto by_rank =
          buffers_that(b, [&](size_t rank) { return model_.buffer(static_cast<int>(rank), b); });
      const auto& word = c_.buffers[b];
      const auto form = form_of(recorded_buffer(word, buffer_of(word, model_.buffer(0, b))));
      add(name, by_rank, form);
      rows_.back().explanations = [this, b, name, form, is_special = word == BufferKind::special] {
        Explanations out;
        if (is_special) out.push_back(other_bits_of_equal_numbers);
        if (const auto* unsent = model_.unsent_buffers(); unsent && is_shown_whole(form))
          out.push_back(recorded_instead(
              {"kept_own_buffers", "the rank's own buffers, where rank 0's belong"},
              values(name, buffers_that(b, [&](size_t rank) { return (*unsent)[rank][b]; }), form)
                  .at(name)));
        return out;
      };
    }
    return std::exchange(rows_, {});
  }

  // Has the model go on from what every rank was seen to hold after this action. False where that
  // is not known: a rank that recorded nothing, or a tensor that is recorded in part.
  bool go_on_from_what_is_held(FollowedModel& model) const {
    const auto& replicas = model_.replicas();
    for (int rank = 0; rank < c_.world.size; ++rank)
      if (action_ && !action_->acts[static_cast<size_t>(rank)]) return false;
    for (size_t p = 0; p < replicas.parameter_count(); ++p) {
      if (!is_shown_whole(model_.form(p))) return false;
      const auto& name = model_.parameters()[p];
      const auto held = h_.row(at_, name_in_records(number_, name)),
                 gradients = h_.row(at_, name_in_records(number_, name + ".grad"));
      for (int rank = 0; rank < c_.world.size; ++rank) {
        const auto at = static_cast<size_t>(rank);
        const auto& like = replicas.parameter(rank, p);
        const auto value = numbers_like(like, held.by_rank[at]),
                   gradient = numbers_like(like, gradients.by_rank[at]);
        if (!value.defined()) return false;
        model.hold(rank, p, value, gradient);
      }
    }
    return true;
  }

 private:
  // float64; undefined where there are none, or another number of them.
  static at::Tensor numbers_like(const at::Tensor& like, const TensorValue& recorded) {
    const auto numbers = torch::tensor(as_doubles(recorded), at::kDouble);
    return numbers.numel() == like.numel() ? numbers.view(like.sizes()) : at::Tensor();
  }

  // The recorded form of a buffer of each rank, of its count.
  template <class Count>
  std::vector<at::Tensor> buffers_that(size_t b, const Count& count) const {
    const auto& word = c_.buffers[b];
    std::vector<at::Tensor> out;
    for (int rank = 0; rank < c_.world.size; ++rank)
      out.push_back(
          seen(rank, recorded_buffer(word, buffer_of(word, count(static_cast<size_t>(rank))))));
    return out;
  }

  // The value as a rank records it: nothing for a step in which it did not act.
  at::Tensor seen(int rank, const at::Tensor& value) const {
    return !action_ || action_->acts[static_cast<size_t>(rank)] ? value : at::Tensor();
  }

  // `parameter`: of which it is the gradient.
  void add(const std::string& name, const std::vector<at::Tensor>& by_rank, const Form& form,
           std::optional<size_t> parameter = {}) {
    for (const auto& [part, expected] : values(name, by_rank, form)) {
      rows_.push_back({.row = h_.row(at_, name_in_records(number_, part)), .expected = expected});
      if (parameter)
        rows_.back().explanations = [this, name, part = part, form, p = *parameter] {
          return explanations(name, part, form, p);
        };
    }
  }

  Explanations explanations(const std::string& name, const std::string& part, const Form& form,
                            size_t parameter) const {
    Explanations out;
    for (const auto& mistake : model_.mistakes()) {
      std::vector<at::Tensor> by_rank;
      for (int rank = 0; rank < c_.world.size; ++rank)
        by_rank.push_back(seen(rank, mistake.replicas.gradient(rank, parameter)));
      out.push_back(
          recorded_instead({mistake.pattern, mistake.text}, values(name, by_rank, form).at(part)));
    }
    if (action_ && is_backward(action_->step.op) && action_->is_synchronised)
      out.push_back(sum_not_average("gradients"));
    return out;
  }

  // The values of each part that is recorded, by rank.
  static std::map<std::string, std::vector<TensorValue>> values(
      const std::string& name, const std::vector<at::Tensor>& by_rank, const Form& form) {
    std::map<std::string, std::vector<TensorValue>> out;
    std::vector<Named> parts;
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      if (rank == 0 || !by_rank[rank].is_same(by_rank[rank - 1]))
        parts = shown(name, by_rank[rank], form);
      for (const auto& part : parts) out[part.name].push_back(value_of(part.value));
    }
    return out;
  }

  const History& h_;
  const Moment at_;
  const ProgramSpec& c_;
  const FollowedModel& model_;
  const int number_;
  const Action* const action_;
  std::vector<Comparison> rows_;
};

}  // namespace lockstep::scenarios::programs
