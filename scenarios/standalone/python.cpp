#include "scenarios/standalone/python.h"

#include "harness/base/text.h"

#include <cmath>
#include <iomanip>
#include <sstream>

namespace lockstep::scenarios::standalone {

namespace {

constexpr size_t kElementsMost = 512;

bool is_whole(Dtype dtype) {
  return dtype == Dtype::int64 || dtype == Dtype::int32 || dtype == Dtype::int16 ||
         dtype == Dtype::int8 || dtype == Dtype::uint8;
}

constexpr const char* kHead = R"(import sys
from contextlib import nullcontext, suppress
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WORLD = %WORLD
%VALUES

class Net(%BASE):
%NET

def program(net, model, rank, no_sync):
    """A rank's steps; one process takes them for every rank, with `net` itself as the model."""
%PROGRAM

def held(net):
    return %HELD


%AVERAGE

%EQUAL

def until_it_throws(steps):
    global wrong
    try:
        yield from steps
    except Exception as error:
        wrong += 1
        print(f"rank {rank} threw {type(error).__name__}: {error}   <-- one process does not", flush=True)


dist.init_process_group("gloo", timeout=timedelta(seconds=%TIMEOUT))
rank = dist.get_rank()
assert dist.get_world_size() == WORLD, f"this is a program for {WORLD} rank{'s' * (WORLD > 1)}"
net = Net(rank)
model = %WRAP
alone = [Net(0) for _ in range(WORLD)]
%WATCH
wrong = 0
runs = [program(one, one, r, nullcontext) for r, one in enumerate(alone)]
for moment, _ in until_it_throws(program(net, model, rank, %NOSYNC)):
    reached = None
    while moment and reached != moment:  # one process comes to the same moment
        (reached, exchange), *_ = [next(run) for run in runs]
        if exchange:
            exchange(alone)
    for (name, mine), right in zip(held(net).items(), held(alone[rank]).values()) if moment else ():
        mark = "" if %IS_EQUAL else "   <-- differs"
        wrong += mark != ""
        print(f"rank {rank}, {moment}: {name} {text(mine)}, one process {text(right)}{mark}", flush=True)
with suppress(RuntimeError):
    dist.barrier()  # torchrun ends the others as soon as one rank has failed
sys.exit(1 if wrong else 0)
)";

constexpr const char* kText = R"(
def text(value):
    return str((value.detach().to_dense() + 0).tolist() if isinstance(value, torch.Tensor) else value)
)";

constexpr const char* kNear = R"(

def is_near(mine, right):
    if not isinstance(mine, torch.Tensor) or not isinstance(right, torch.Tensor):
        return mine == right
    return mine.shape == right.shape and torch.allclose(mine.double(), right.double(), rtol=%TOLERANCE, atol=%TOLERANCE)
)";

// A rank that has no gradient counts as zero where another one has.
constexpr const char* kAverage = R"(
def average(nets):
    for same in zip(*(net.parameters() for net in nets)):
        gradients = [each.grad for each in same if each.grad is not None]
        for each in same if gradients else ():
            each.grad = sum(gradients) / WORLD
)";

constexpr const char* kAverageOfUsed = R"(
used = set()  # names of parameters that got a gradient since the last average, on any rank


def average(nets, prefix=""):
    for name in sorted(each for each in used if each.startswith(prefix)):
        same = [net.get_parameter(name) for net in nets]
        parts = [torch.view_as_real(each.grad) if each.is_complex() else each.grad for each in same if each.grad is not None]
        mean = sum(parts) / WORLD
        for each in same:
            each.grad = torch.view_as_complex(mean.clone()) if each.is_complex() else mean.clone()
        used.discard(name)
)";

constexpr const char* kWatch = R"(for one in alone:
    for name, each in one.named_parameters():
        if each.requires_grad:
            each.register_post_accumulate_grad_hook(lambda _, name=name: used.add(name))
)";

std::string in_digits(double value, int digits) {
  std::ostringstream out;
  out << std::setprecision(digits) << value;
  return out.str();
}

// The elements from `at` on, as nested lists of this shape.
std::string nested(const Numbers& numbers, size_t axis, size_t& at) {
  if (axis == numbers.shape.size()) {
    const auto value = numbers.values[at++];
    if (numbers.dtype == Dtype::bool_) return value != 0 ? "True" : "False";
    return is_whole(numbers.dtype) ? std::to_string(static_cast<int64_t>(value)) : literal(value);
  }
  std::vector<std::string> parts;
  for (int64_t i = 0; i < numbers.shape[axis]; ++i) parts.push_back(nested(numbers, axis + 1, at));
  return list(parts);
}

Numbers counted(Counter at, std::vector<int64_t> shape, Dtype dtype, auto&& value_at) {
  Numbers out{.shape = std::move(shape), .values = {}, .dtype = dtype};
  int64_t count = 1;
  for (const auto size : out.shape) count *= size;
  for (int64_t i = 0; i < count; ++i, ++at.index) out.values.push_back(value_at(at));
  return out;
}

}  // namespace

Numbers whole_numbers(Counter first, int64_t most, std::vector<int64_t> shape, Dtype dtype) {
  return counted(first, std::move(shape), dtype,
                 [most](const Counter& at) { return static_cast<double>(whole_at(at, most)); });
}

Numbers real_numbers(Counter first, std::vector<int64_t> shape, Dtype dtype) {
  return counted(first, std::move(shape), dtype, [](const Counter& at) { return real_at(at); });
}

std::string filled(std::string text,
                   const std::vector<std::pair<std::string, std::string>>& by_mark) {
  for (const auto& [mark, by] : by_mark)
    for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + by.size()))
      text.replace(at, mark.size(), by);
  return text;
}

std::string table(const std::string& name, const std::string& by,
                  const std::vector<std::string>& expressions) {
  std::string out = name + " = [  # by " + by + "\n";
  for (const auto& each : expressions) out += "    " + each + ",\n";
  return out + "]\n";
}

std::string indented(const std::string& text, size_t blanks) {
  std::string out;
  for (const auto& line : split(text, '\n')) {
    if (!out.empty()) out += "\n";
    out += line.empty() ? "" : std::string(blanks, ' ') + line;
  }
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out + "\n";
}

std::string in_order(const std::vector<std::string>& parts) {
  constexpr size_t kSaid = 5;
  std::vector<std::pair<std::string, int>> counted;
  for (const auto& part : parts)
    if (!counted.empty() && counted.back().first == part)
      ++counted.back().second;
    else
      counted.emplace_back(part, 1);
  std::vector<std::string> said;
  size_t left = parts.size();
  for (const auto& [part, times] : counted) {
    if (said.size() == kSaid && counted.size() > kSaid + 1) break;
    said.push_back(part + (times == 1 ? "" : " (" + std::to_string(times) + " times)"));
    left -= static_cast<size_t>(times);
  }
  return joined(said, ", ") + (left == 0 ? "" : " and " + std::to_string(left) + " more");
}

std::string list(const std::vector<std::string>& expressions) {
  return "[" + joined(expressions, ", ") + "]";
}

std::string list(const std::vector<int64_t>& numbers) {
  std::vector<std::string> parts;
  for (const auto each : numbers) parts.push_back(std::to_string(each));
  return list(parts);
}

std::string literal(double value) {
  if (std::isnan(value)) return "torch.nan";
  if (std::isinf(value)) return value < 0 ? "-torch.inf" : "torch.inf";
  if (std::trunc(value) == value && std::abs(value) < 1e15)
    return std::to_string(static_cast<int64_t>(value)) + ".0";
  for (int digits = 1; digits < 17; ++digits)
    if (const auto text = in_digits(value, digits); std::stod(text) == value) return text;
  return in_digits(value, 17);
}

std::string literal(const Numbers& numbers) {
  if (numbers.values.size() > kElementsMost)
    throw NotWritten("a tensor of the case has " +
                     with_commas(static_cast<int64_t>(numbers.values.size())) +
                     " elements, and programs are written with " + std::to_string(kElementsMost) +
                     " at most: shrink the case first");
  const bool is_plain = numbers.dtype == Dtype::float32 || numbers.dtype == Dtype::int64 ||
                        numbers.dtype == Dtype::bool_;
  const auto dtype = ", dtype=torch." + std::string(word_of(numbers.dtype));
  if (numbers.values.empty())
    return "torch.zeros(" + list(numbers.shape) + (is_plain ? ")" : dtype + ")");
  size_t at = 0;
  return "torch.tensor(" + nested(numbers, 0, at) + (is_plain ? ")" : dtype + ")");
}

std::string arguments(const WrapOptions& options) {
  if (const auto* missing = options.missing_in_pytorch())
    throw NotWritten(std::string("PyTorch 2.11's DistributedDataParallel has no ") + missing);
  if (!options.buffer_sync_lag)
    throw NotWritten("PyTorch always leaves buffers alone in the forward after a local one");
  constexpr double kMebibyte = 1024.0 * 1024.0;
  std::string out;
  const auto add = [&](const std::string& name, const std::string& value) {
    out += ", " + name + "=" + value;
  };
  if (!options.broadcast_buffers) add("broadcast_buffers", "False");
  if (!options.init_sync) add("init_sync", "False");
  for (const auto& each : WrapOptions::kSwitches)
    if (options.*each.value) add(each.name, "True");
  const auto mebibytes = [&](int64_t bytes) {
    return literal(static_cast<double>(bytes) / kMebibyte);
  };
  std::vector<std::string> caps;
  for (const auto bytes : options.bucket_caps_bytes) caps.push_back(mebibytes(bytes));
  if (!caps.empty())
    add("bucket_cap_mb_list", list(caps));
  else if (options.bucket_cap_bytes != 0)
    add("bucket_cap_mb", mebibytes(options.bucket_cap_bytes));
  return out;
}

std::string text_of(const Python& source) {
  const bool is_exact = source.tolerance == 0;
  const auto wrap = source.wrap.empty() ? "DistributedDataParallel(net%OPTIONS)" : source.wrap;
  return filled(kHead,
                {{"%VALUES\n", source.values},
                 {"%NET\n", indented(source.net, 4) + "\n"},
                 {"%PROGRAM\n", indented(source.program, 4) + "\n"},
                 {"%BASE", source.base},
                 {"%HELD", source.held},
                 {"%AVERAGE", (source.keeps_unused ? kAverageOfUsed : kAverage) + 1},
                 {"%WATCH\n", source.keeps_unused ? kWatch : ""},
                 {"%EQUAL", std::string(kText + 1) + (is_exact ? "" : kNear)},
                 {"%IS_EQUAL", is_exact ? "text(mine) == text(right)" : "is_near(mine, right)"},
                 {"%TOLERANCE", literal(source.tolerance)},
                 {"%TIMEOUT", std::to_string(source.timeout_s)},
                 {"%NOSYNC", source.no_sync},
                 {"%WRAP", wrap},
                 {"%OPTIONS", source.options},
                 {"%WORLD", std::to_string(source.world)}});
}

}  // namespace lockstep::scenarios::standalone
