#include "ddp/comm/group_record.h"
#include "ddp/comm/program_communicator.h"
#include "ddp/comm/split_group.h"
#include "ddp/errors.h"
#include "train/collectives.h"
#include "train/collectives/call.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <numeric>

namespace lockstep {

namespace {

std::string problem_with_ranks(const std::vector<int>& ascending, int world_size) {
  if (ascending.empty()) return "ranks is empty, expected at least one rank";
  if (std::ranges::adjacent_find(ascending) != ascending.end())
    return "ranks has a rank twice: " + listed(ascending);
  if (ascending.front() < 0 || ascending.back() >= world_size)
    return "ranks are " + listed(ascending) + ", expected ranks of 0 to " +
           std::to_string(world_size - 1);
  return "";
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> new_group(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::vector<int>& ranks,
    const CollectiveOptions& options) {
  ProgramCall call(group, "new_group", options);
  std::vector<int> ascending = ranks;
  std::ranges::sort(ascending);
  call.compare("the ranks", listed(ascending));
  const std::string problem = problem_with_ranks(ascending, group->getSize());
  if (!problem.empty()) call.refuse(problem);
  int made_before = 0;
  with_record_of(group, [&](GroupRecord& here) { made_before = here.groups_made; });
  call.compare("the number of groups made before", std::to_string(made_before));
  call.agree();
  with_record_of(group, [&](GroupRecord& here) { ++here.groups_made; });
  const auto timeout = call.communicator().timeout();
  try {
    return split_group(*group, timeout, "new group " + std::to_string(made_before), ascending);
  } catch (const c10::DistError& error) {
    call.communicator().fail(call.name(), first_line(error));
  } catch (const std::exception& error) {
    throw UsageError(call.name() + ": the group's backend gives no group to some of its ranks (" +
                     first_line(error) + ")");
  }
}

c10::intrusive_ptr<c10d::ProcessGroup> new_subgroups(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group, int size,
    const CollectiveOptions& options) {
  ProgramCall call(group, "new_subgroups", options);
  const int world_size = call.communicator().world_size();
  call.compare("the size", std::to_string(size));
  if (size < 1 || world_size % size != 0)
    call.refuse("the size is " + std::to_string(size) + ", expected a divisor of " +
                std::to_string(world_size) + " ranks");
  call.agree();
  c10::intrusive_ptr<c10d::ProcessGroup> mine;
  for (int first = 0; first < world_size; first += size) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), first);
    if (auto part = new_group(group, ranks, options)) mine = std::move(part);
  }
  return mine;
}

void destroy_process_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  if (group) release_program_communicator(group);
}

}  // namespace lockstep
