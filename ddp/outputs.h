#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep {

// Finds the tensors in a forward's result: the one customisation point of DistributedDataParallel.
// Specialise it for your own struct:
//
//   template <>
//   struct lockstep::OutputTensors<Prediction> {
//     static void visit(const Prediction& output, auto&& each) {
//       each(output.logits);        // a tensor, or any other type that can be visited
//       each(output.hidden_states);
//     }
//   };
//
// Known types are tensors, numbers, enumerations and strings, and optional, pair, tuple, array,
// vector, map, unordered_map, variant, unique_ptr and shared_ptr of known types. Any other type
// works too unless its tensors are needed; find_unused_parameters and static_graph need them and
// refuse it.
//
// visit() calls `each` for every part that may hold a tensor. Local; does not block; does not
// change the output.
template <class T>
struct OutputTensors;

template <class T>
concept KnownOutput = requires {
  sizeof(OutputTensors<std::remove_cvref_t<T>>);
};

// Calls on_tensor(const at::Tensor&) for every tensor in `output`, undefined ones too.
template <KnownOutput T, class OnTensor>
void for_each_tensor(const T& output, OnTensor&& on_tensor) {
  if constexpr (std::is_base_of_v<at::Tensor, T>) {
    on_tensor(static_cast<const at::Tensor&>(output));
  } else {
    OutputTensors<T>::visit(output, [&](const auto& part) { for_each_tensor(part, on_tensor); });
  }
}

template <class T>
requires std::is_base_of_v<at::Tensor, T>
struct OutputTensors<T> {
  static void visit(const T& output, auto&& each) { each(output); }
};

template <class T>
requires std::is_arithmetic_v<T> || std::is_enum_v<T>
struct OutputTensors<T> {
  static void visit(const T&, auto&&) {}
};

template <>
struct OutputTensors<std::string> {
  static void visit(const std::string&, auto&&) {}
};

template <>
struct OutputTensors<std::monostate> {
  static void visit(const std::monostate&, auto&&) {}
};

template <KnownOutput T>
struct OutputTensors<std::optional<T>> {
  static void visit(const std::optional<T>& output, auto&& each) {
    if (output) each(*output);
  }
};

template <KnownOutput T, class Deleter>
struct OutputTensors<std::unique_ptr<T, Deleter>> {
  static void visit(const std::unique_ptr<T, Deleter>& output, auto&& each) {
    if (output) each(*output);
  }
};

template <KnownOutput T>
struct OutputTensors<std::shared_ptr<T>> {
  static void visit(const std::shared_ptr<T>& output, auto&& each) {
    if (output) each(*output);
  }
};

template <KnownOutput... T>
struct OutputTensors<std::tuple<T...>> {
  static void visit(const std::tuple<T...>& output, auto&& each) {
    std::apply([&](const auto&... parts) { (each(parts), ...); }, output);
  }
};

template <KnownOutput A, KnownOutput B>
struct OutputTensors<std::pair<A, B>> {
  static void visit(const std::pair<A, B>& output, auto&& each) {
    each(output.first);
    each(output.second);
  }
};

template <KnownOutput T, std::size_t N>
struct OutputTensors<std::array<T, N>> {
  static void visit(const std::array<T, N>& output, auto&& each) {
    for (const T& part : output) each(part);
  }
};

template <KnownOutput T, class Allocator>
struct OutputTensors<std::vector<T, Allocator>> {
  static void visit(const std::vector<T, Allocator>& output, auto&& each) {
    for (const T& part : output) each(part);
  }
};

template <class K, KnownOutput T, class Less, class Allocator>
struct OutputTensors<std::map<K, T, Less, Allocator>> {
  static void visit(const std::map<K, T, Less, Allocator>& output, auto&& each) {
    for (const auto& [key, part] : output) each(part);
  }
};

template <class K, KnownOutput T, class Hash, class Equal, class Allocator>
struct OutputTensors<std::unordered_map<K, T, Hash, Equal, Allocator>> {
  static void visit(const std::unordered_map<K, T, Hash, Equal, Allocator>& output, auto&& each) {
    for (const auto& [key, part] : output) each(part);
  }
};

template <KnownOutput... T>
struct OutputTensors<std::variant<T...>> {
  static void visit(const std::variant<T...>& output, auto&& each) {
    std::visit([&](const auto& part) { each(part); }, output);
  }
};

}  // namespace lockstep
