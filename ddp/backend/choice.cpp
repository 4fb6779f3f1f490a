#include "ddp/backend/choice.h"

#include "ddp/errors.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace lockstep {

namespace {

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char each : text) {
    if (each == separator) {
      parts.emplace_back();
    } else {
      parts.back() += each;
    }
  }
  return parts;
}

[[noreturn]] void refuse_backend(const std::string& text, const std::string& why) {
  throw UsageError("init_process_group: backend is '" + text + "', " + why +
                   ". There is: gloo (CPU and CUDA tensors), nccl (CUDA tensors), and one for each "
                   "device, as in cpu:gloo,cuda:nccl; nothing stands for gloo, and nccl where "
                   "there is a GPU. The mpi and tcp of old tutorials do not exist");
}

std::string count_of(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string listed_ranks(const std::vector<std::size_t>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

std::optional<int> number_in(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return std::stoi(text);
}

// The ranks of the host that see the same GPUs, in ascending order.
std::vector<std::size_t> ranks_that_see_the_same(const std::vector<RankPlace>& places,
                                                 std::size_t rank) {
  std::vector<std::size_t> ranks;
  for (std::size_t other = 0; other < places.size(); ++other) {
    if (places[other].host == places[rank].host && places[other].gpus == places[rank].gpus)
      ranks.push_back(other);
  }
  return ranks;
}

// The launcher's local rank, which the program reads too, if all ranks of the host see the same
// GPUs; else the position among those that do.
int position_of(const std::vector<RankPlace>& places, std::size_t rank) {
  const auto ranks = ranks_that_see_the_same(places, rank);
  const auto on_host = std::count_if(places.begin(), places.end(), [&](const RankPlace& place) {
    return place.host == places[rank].host;
  });
  const auto position = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
  const bool all_see_the_same = on_host == static_cast<std::ptrdiff_t>(ranks.size());
  return all_see_the_same ? places[rank].local_rank.value_or(static_cast<int>(position))
                          : static_cast<int>(position);
}

std::string too_few(const std::vector<RankPlace>& places, std::size_t rank, int ranks_per_device) {
  const std::size_t ranks = ranks_that_see_the_same(places, rank).size();
  return "host " + places[rank].host + " has " + count_of(places[rank].gpus.size(), "GPU") +
         " for " + count_of(ranks, "rank") +
         (ranks_per_device > 1 ? ", and ranks_per_device is " + std::to_string(ranks_per_device)
                               : ", and NCCL takes one rank a GPU") +
         ": start fewer ranks there, take the backend gloo, or ask for several ranks a GPU "
         "(ranks_per_device; docs/gpu.md)";
}

// Two processes on one GPU make NCCL fail late, with an unclear message.
std::string shared_gpus(const std::vector<RankPlace>& places, const std::vector<int>& indices,
                        int ranks_per_device) {
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> ranks_on;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const auto index = static_cast<std::size_t>(indices[rank]);
    ranks_on[{places[rank].host, places[rank].gpus[index]}].push_back(rank);
  }
  for (const auto& [gpu, ranks] : ranks_on) {
    if (ranks.size() <= static_cast<std::size_t>(ranks_per_device)) continue;
    return "ranks " + listed_ranks(ranks) + " are all to use one GPU of host " + gpu.first +
           ", which is device " + std::to_string(indices[ranks.front()]) + " of rank " +
           std::to_string(ranks.front()) +
           ": give each its own device_index, or say how many ranks "
           "a GPU is to take (ranks_per_device; docs/gpu.md)";
  }
  return "";
}

}  // namespace

BackendWish read_backend(const std::string& text) {
  if (text.empty()) return {.is_default = true};
  if (text == "gloo") return {.cpu = "gloo", .cuda = "gloo"};
  if (text == "nccl") return {.cuda = "nccl"};
  BackendWish wish;
  for (const std::string& part : split_at(text, ',')) {
    const auto words = split_at(part, ':');
    if (words.size() != 2) refuse_backend(text, "and there is no backend of this name");
    const bool is_cpu = words[0] == "cpu";
    if (!is_cpu && words[0] != "cuda") refuse_backend(text, "and there is no device " + words[0]);
    if (words[1] != "gloo" && (is_cpu || words[1] != "nccl"))
      refuse_backend(text, "and " + words[1] + " carries no " + words[0] + " tensors");
    std::string& chosen = is_cpu ? wish.cpu : wish.cuda;
    if (!chosen.empty()) refuse_backend(text, "which names " + words[0] + " twice");
    chosen = words[1];
  }
  return wish;
}

std::string words_of(const BackendWish& wish) {
  std::string words = wish.cpu.empty() ? "" : "cpu:" + wish.cpu;
  if (!wish.cuda.empty()) words += (words.empty() ? "cuda:" : ",cuda:") + wish.cuda;
  return words;
}

BackendWish default_backend(const std::string& problem) {
  return {.is_default = true, .cpu = "gloo", .cuda = problem.empty() ? "nccl" : ""};
}

std::string text_of(const RankPlace& place) {
  const auto number = [](const std::optional<int>& value) {
    return value ? std::to_string(*value) : "";
  };
  std::string text =
      place.host + "\n" + number(place.local_rank) + "\n" + number(place.device_index);
  for (const std::string& gpu : place.gpus) text += "\n" + gpu;
  return text;
}

RankPlace place_from(const std::string& text) {
  const auto lines = split_at(text, '\n');
  return {.host = lines.at(0),
          .gpus = {lines.begin() + 3, lines.end()},
          .local_rank = number_in(lines.at(1)),
          .device_index = number_in(lines.at(2))};
}

Placement place_ranks(const std::vector<RankPlace>& places, int ranks_per_device) {
  Placement placement;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const RankPlace& place = places[rank];
    const int count = static_cast<int>(place.gpus.size());
    const int index = place.device_index.value_or(position_of(places, rank) / ranks_per_device);
    if (index < 0 || index >= count) {
      placement.problem = place.device_index
                              ? "rank " + std::to_string(rank) + " asks for device_index " +
                                    std::to_string(index) + ", and sees " +
                                    count_of(place.gpus.size(), "GPU") + " on host " + place.host
                              : too_few(places, rank, ranks_per_device);
      return placement;
    }
    placement.device_indices.push_back(index);
  }
  placement.problem = shared_gpus(places, placement.device_indices, ranks_per_device);
  return placement;
}

}  // namespace lockstep
