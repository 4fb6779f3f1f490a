// Beliefs of collectives, devices and lost ranks: 23, 24, 30 and 31.
#include "demos/beliefs/belief.h"
#include "demos/beliefs/beliefs.h"
#include "demos/beliefs/models.h"
#include "harness/base/text.h"

#include <algorithm>
#include <exception>

namespace lockstep::demos::beliefs {

namespace {

using reports::number_text;

bool is_last(const Run& run) {
  return run.rank() == run.world() - 1;
}

// Rank r sums r + 1 as "a" and ten times that as "b"; the last rank in the other order. In the
// second run the ranks wrap models that differ, which DDP compares before it sends anything.
void mismatches(const Run& run) {
  bool raised = false;
  auto a = torch::zeros({1}, at::kDouble), b = a;
  try {
    if (run.is_met()) wrap(run.here(), std::make_shared<Weights>(is_last(run) ? 3 : 2), {});
    const auto one = samples(run.rank(), 1);
    if (is_last(run)) b = summed(run.here(), 10 * one);
    a = summed(run.here(), one);
    if (!is_last(run)) b = summed(run.here(), 10 * one);
  } catch (const Unsupported&) {
    throw;
  } catch (const std::exception&) {
    raised = true;
  }
  run.record("raised", raised ? 1 : 0);
  run.record("a", a);
  run.record("b", b);
}

Outcome somebody_complains(const Records& records) {
  const bool raised = all_close(records.by_rank("raised"), 1);
  const double right = records.world() * (records.world() + 1) / 2.0;
  if (raised) return {true, "every rank raises an error", {column("errors", records, "raised")}};
  return {
      false,
      "no rank raises an error, and rank 0 has a = " + number_text(records.by_rank("a").front()) +
          ", where the sum is " + number_text(right),
      {column("a", records, "a", 0, right), column("b", records, "b", 0, 10 * right),
       column("errors", records, "raised")}};
}

// The last rank is lost: it returns without a word, or reports its failure first. The others train
// on.
void loses_a_rank(const Run& run) {
  run.record("is lost", is_last(run) ? 1 : 0);
  if (!run.is_met()) {
    if (!is_last(run)) summed(run.here(), samples(run.rank(), 1));
    return;
  }
  const auto model = std::make_shared<OneWeight>();
  const auto replica = wrap(run.here(), model, {});
  bool raised = false;
  if (is_last(run)) {
    replica->report_failure("the last rank is lost");
  } else {
    try {
      replica->backward(replica->forward(samples(run.rank(), 1)).sum());
    } catch (const std::exception&) {
      raised = true;
    }
  }
  run.record("raised", raised ? 1 : 0);
}

Outcome the_others_get_an_error(const Records& records) {
  const int others = records.world() - 1;
  Outcome out{records.has("raised"), "", {{"what it gets", {}}}};
  int waiting = 0;
  for (int rank = 0; rank < others; ++rank) {
    const bool raised = records.has("raised") && records.numbers(rank, "raised")[0] == 1;
    const auto ending = records.rank(rank).ending.kind;
    const bool waits = !raised && ending != Ending::Kind::returned;
    out.columns[0].by_rank.emplace_back(raised ? "an error" : waits ? "waits" : "nothing");
    out.holds = out.holds && raised;
    waiting += waits ? 1 : 0;
  }
  out.columns[0].by_rank.emplace_back("is lost");
  out.fact = out.holds     ? "every other rank gets an error"
             : waiting > 0 ? std::to_string(waiting) + " of " + std::to_string(others) +
                                 " other ranks wait until the world is ended from outside"
                           : "the other ranks get no error";
  return out;
}

using Operation = c10d::ReduceOp::RedOpType;
const std::vector<std::pair<std::string, Operation>> kOperations{
    {"SUM", Operation::SUM},  {"PRODUCT", Operation::PRODUCT}, {"MIN", Operation::MIN},
    {"MAX", Operation::MAX},  {"BAND", Operation::BAND},       {"BOR", Operation::BOR},
    {"BXOR", Operation::BXOR}};

at::Tensor reduced(const Run& run, Operation operation, const at::Tensor& own) {
  std::vector<at::Tensor> tensors{own.clone()};
  c10d::AllreduceOptions options;
  options.reduceOp = operation;
  run.here().group()->allreduce(tensors, options)->wait();
  return tensors.front();
}

// Rank 0 has 8, rank 1 has 2.
void reduces(const Run& run) {
  const double own = run.rank() == 0 ? 8 : 2;
  if (run.is_met()) {
    const bool is_first = run.rank() == 0;
    const auto as = [](double value) { return torch::full({1}, value, at::kDouble); };
    run.record("SUM of 8, -2", reduced(run, Operation::SUM, as(is_first ? own : -own)));
    run.record("PRODUCT of 8, 1/2", reduced(run, Operation::PRODUCT, as(is_first ? own : 1 / own)));
    return;
  }
  for (const auto& [name, operation] : kOperations)
    run.record(name, reduced(run, operation, torch::full({1}, own, at::kLong)));
}

Outcome some_operation_subtracts_and_divides(const Records& records) {
  Outcome out;
  std::vector<std::string> names{"SUM of 8, -2", "PRODUCT of 8, 1/2"}, parts;
  if (records.has(kOperations.front().first)) {
    names.clear();
    for (const auto& [name, operation] : kOperations) names.push_back(name);
  }
  bool subtracts = false, divides = false;
  for (const auto& name : names) {
    const double value = records.by_rank(name).front();
    subtracts = subtracts || value == 8 - 2;
    divides = divides || value == 8.0 / 2;
    out.columns.push_back(column(name, records, name));
  }
  out.holds = subtracts && divides;
  out.fact = std::string(subtracts ? "8 - 2 = 6" : "no result is 8 - 2 = 6") + " and " +
             (divides ? "8 / 2 = 4" : "none is 8 / 2 = 4");
  if (out.holds) out.fact += " are among the results";
  return out;
}

// Hosts of 2 and 4 devices, or of 3 each, with consecutive ranks. As a launcher does, ranks
// exchange their hosts; a rank's local number counts the ranks before it on its host.
void picks_a_device(const Run& run) {
  const int64_t on_first = run.is_met() ? 3 : 2;
  const int64_t host = run.rank() < on_first ? 0 : 1;
  std::vector<at::Tensor> own{torch::full({1}, host, at::kLong)};
  std::vector<std::vector<at::Tensor>> hosts{{}};
  for (int rank = 0; rank < run.world(); ++rank) hosts[0].push_back(torch::zeros({1}, at::kLong));
  run.here().group()->allgather(hosts, own)->wait();
  const auto all = torch::cat(hosts[0]);
  const auto devices = all.eq(host).sum().item<int64_t>();
  run.record("host", std::vector<int64_t>{host});
  run.record("devices", std::vector<int64_t>{devices});
  run.record("local rank",
             std::vector<int64_t>{all.slice(0, 0, run.rank()).eq(host).sum().item<int64_t>()});
  run.record("picked", std::vector<int64_t>{run.rank() % devices});
}

Outcome the_device_is_the_local_rank(const Records& records) {
  const auto local = records.by_rank("local rank"), picked = records.by_rank("picked");
  int64_t wrong = 0;
  for (size_t rank = 0; rank < local.size(); ++rank) wrong += local[rank] == picked[rank] ? 0 : 1;
  return {
      wrong == 0,
      std::to_string(wrong) + " of " + std::to_string(local.size()) +
          " ranks pick another device than that of their local rank",
      {column("host", records, "host"), column("its devices", records, "devices"),
       column("local rank", records, "local rank"), column("rank % devices", records, "picked")}};
}

}  // namespace

std::vector<Demo> of_collectives() {
  return {
      belief<2, 2, 6>(
          {.number = 23,
           .belief = "The backend would complain about mismatched calls",
           .condition = "somebody compares the calls first, as DDP does with models when it wraps "
                        "them: a backend pairs calls by their order, whatever they were meant for",
           .text = "Rank r sums r + 1 as a and 10 (r + 1) as b, the last rank in the other order. "
                   "In the second run the ranks wrap models that differ.",
           .unmet = "where two calls of one size are swapped",
           .met = "where DDP compares the ranks",
           .program = mismatches,
           .outcome = somebody_complains,
           .proof = "replicas.different_models_are_refused"}),
      belief<3>({.number = 24,
                 .belief = "A dead rank is noticed by the timeout",
                 .condition =
                     "the wait has a deadline or polls for failures, in the phase in which "
                     "the rank dies; a simulated world proves that a wait never ends, "
                     "others end it after half a minute",
                 .text = "The last rank is lost, and the others all-reduce: with the process group "
                         "alone, and through DDP, to which it reports its failure.",
                 .unmet = "where the others wait without a deadline",
                 .met = "where its failure is reported",
                 .program = loses_a_rank,
                 .outcome = the_others_get_an_error,
                 .proof = "failures.reach_every_survivor",
                 .shows_endings = true}),
      belief<2, 2, 2>({.number = 30,
                       .belief = "A reduction can subtract and divide",
                       .condition = "the ranks negate or invert first: the operations are SUM, "
                                    "PRODUCT, MIN, MAX, AVG and the bitwise ones, which do not "
                                    "depend on the order of ranks",
                       .text = "Rank 0 has 8, rank 1 has 2.",
                       .unmet = "with the operations there are",
                       .met = "where rank 1 negates or inverts its number",
                       .program = reduces,
                       .outcome = some_operation_subtracts_and_divides}),
      belief<6, 6, 6>({.number = 31,
                       .belief = "rank % device_count is the local device",
                       .condition = "all hosts have as many devices, and consecutive ranks",
                       .text = "Two hosts are imitated: the ranks exchange the host that each is "
                               "on, and count the ranks before them on theirs.",
                       .unmet = "with hosts of 2 and 4 devices",
                       .met = "with hosts of 3 devices each",
                       .program = picks_a_device,
                       .outcome = the_device_is_the_local_rank})};
}

}  // namespace lockstep::demos::beliefs
