// A file that Python's torch.save wrote is loaded value by value, or refused on every rank with one
// sentence, and then nothing has changed.
//
// Each rank holds what the file has and, in other objects, other values; it loads the file into
// those. The harness writes the file itself, in each of the ways in which Python writes the same
// values: names, dictionaries and classes around them, protocols, strides and shared storages,
// numbers of every width. A damaged file may be every rank's or one's alone: who reads it says why,
// and all receive it. The same call with a whole file succeeds next.
#include "harness/cases/generators.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/averaging/divided.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/checkpoint/files.h"
#include "scenarios/checkpoint/python_training.h"

#include <fstream>

namespace lockstep::scenarios::checkpoint_files_of_pytorch_are_read {
namespace {

using namespace checkpoint;

constexpr const char *kWritten = "written", *kBefore = "before", *kLoaded = "loaded",
                     *kAgain = "loaded again", *kSentence = "sentence";

void record_all(RankContext& here, const char* phase, const PythonTraining& training) {
  here.enter(0, phase);
  for (const auto& [name, value] : training.recorded()) here.record(name, value);
}

// A whole file, and beside it the damaged one, which may not be there.
void write_files(const PythonFile& c, const PythonTraining& of_the_file, const std::string& path) {
  const PickleStyle style{.protocol = c.protocol, .refers = c.refers};
  const auto write = [&](const std::string& suffix, std::string bytes) {
    std::ofstream(path + suffix, std::ios::binary) << bytes;
  };
  write("", python_file(of_the_file.object(Damage::none), style));
  const auto damage = damage_of(c);
  if (damage == Damage::none || damage == Damage::is_missing) return;
  const PythonTraining others(c, PythonTraining::Values::of_another_file);
  auto bytes = python_file(
      (damage == Damage::has_other_values ? others : of_the_file).object(damage), style);
  if (damage == Damage::is_cut) bytes.resize(bytes.size() * 3 / 4);
  write(".damaged", bytes);
}

void program(const PythonFile& c, RankContext& here) {
  const auto& files = checkpoints(here);
  const PythonTraining of_the_file(c, PythonTraining::Values::of_the_file);
  PythonTraining training(c, PythonTraining::Values::others);
  const auto path = path_of(here);
  if (here.rank() == 0) {
    write_files(c, of_the_file, path);
    here.store()->set("files of Python", "written");
  }
  here.store()->get("files of Python");
  record_all(here, kWritten, of_the_file);
  record_all(here, kBefore, training);
  const auto load = [&](const std::string& suffix) {
    files.load(path + suffix, here.group(),
               {.model = &training.model(),
                .optimizer = training.optimizer(),
                .epoch = has_rest(c) ? &training.epoch : nullptr,
                .step = has_rest(c) ? &training.step : nullptr,
                .generators = {}},
               {});
  };
  const bool is_damaged =
      damage_of(c) != Damage::none && (damaged_rank(c) < 0 || damaged_rank(c) == here.rank());
  here.enter(0, "load");
  const auto sentence = naming(error_of([&] { load(is_damaged ? ".damaged" : ""); }), path, "FILE");
  record_all(here, kLoaded, training);
  record_sentence(here, kSentence, sentence);
  if (damage_of(c) == Damage::none) return;
  here.enter(0, "load again");
  load("");
  record_all(here, kAgain, training);
}

std::vector<Comparison> as_in(const PythonFile& c, const History& h, const char* phase,
                              const char* right) {
  std::vector<Comparison> rows;
  for (const auto& name : recorded_names(c))
    rows.push_back({.row = h.row({0, phase}, name), .expected = h.row({0, right}, name).by_rank});
  return rows;
}

Findings a_whole_file_is_loaded(const PythonFile& c, const History& h) {
  const char* loaded = damage_of(c) == Damage::none ? kLoaded : kAgain;
  return equal("What was loaded must be what the file has", as_in(c, h, loaded, kWritten));
}

Findings a_damaged_file_changes_nothing(const PythonFile& c, const History& h) {
  if (damage_of(c) == Damage::none) return {};
  return equal("A file that is refused must leave everything as it was",
               as_in(c, h, kLoaded, kBefore));
}

// The words with which a rank refuses the file that it reads.
std::string why_refused(const PythonFile& c) {
  const auto name =
      "'" + name_of_tensor(c, static_cast<size_t>(c.entry) % tensors_of(c).size()) + "'";
  switch (damage_of(c)) {
    case Damage::lacks_an_entry:
      return " lacks " + name + " of the model";
    case Damage::has_another_entry:
      return " has 'further', which the model lacks";
    case Damage::has_another_shape:
    case Damage::has_another_dtype:
      return ": " + name + " is ";
    case Damage::holds_a_class:
      return "it holds a argparse.Namespace, expected tensors, numbers, texts, lists, tuples and "
             "dictionaries alone";
    case Damage::counts_a_fraction:
      return "'step' of the file is 0.500000, expected a whole number";
    case Damage::lacks_a_group:
      return "param groups, expected ";
    case Damage::lacks_a_state:
      return std::string("it lacks '") + damaged_state(c) + "' of ";
    case Damage::has_a_state_of_another_shape:
      return "expected the parameter's ";
    case Damage::maximizes:
      return " is True, which LibTorch's optimizers cannot";
    case Damage::is_of_another_optimizer:
      return c.optimizer == OptimizerKind::adamw ? "its optimizer is Adam, expected AdamW"
                                                 : "its optimizer is AdamW, expected Adam";
    case Damage::is_cut:
      return "it is torn or damaged (";
    case Damage::is_missing:
      return "No such file or directory";
    default:
      return "";
  }
}

Findings every_rank_receives_why(const PythonFile& c, const History& h) {
  const auto row = h.row({0, kLoaded}, kSentence);
  const auto received = sentence_in(row, 0);
  const bool is_refused = damage_of(c) != Damage::none;
  for (int rank = 0; rank < c.world.size; ++rank)
    if (const auto sentence = sentence_in(row, rank); sentence.empty() == is_refused)
      return {{"Every rank must load a whole file, and refuse one that a rank cannot read",
               is_refused ? "error_does_not_arrive" : "refused_what_it_could_do", kLoaded,
               "rank " + std::to_string(rank) + " received " +
                   (is_refused ? "no error" : "'" + sentence + "'")}};
  if (!is_refused || !is_in_our_words(row)) return {};
  if (auto out = all_received_one_sentence(row); !out.empty()) return out;
  const bool is_another = damage_of(c) == Damage::has_other_values;
  std::vector<int> damaged{damaged_rank(c)};
  if (damaged.front() < 0) damaged = averaging::first_ranks(c.world.size);
  const std::string begins = is_another
                                 ? "ranks disagree on the checksum of the file of load_checkpoint"
                                 : named(damaged) + " of " + std::to_string(c.world.size) +
                                       " cannot take part: load_checkpoint: FILE.damaged: ";
  if (received.starts_with(begins) && received.find(why_refused(c)) != std::string::npos) return {};
  return {{"A file that cannot be loaded must be refused with what is wrong with it",
           "names_another_difference", kLoaded,
           "rank 0 received '" + received + "', expected '" + begins + "...' with '" +
               why_refused(c) + "'"}};
}

constexpr int kDamages = static_cast<int>(words::kAll<Damage>.size());

std::vector<PythonFile> every_small_one() {
  std::vector<PythonFile> all;
  for (int damage = 0; damage < kDamages; ++damage)
    for (const int rank : {-1, 1})
      all.push_back({.world = {.size = 2},
                     .tensors = {{.shape = {2}}, {.is_buffer = true, .shape = {2, 3}}},
                     .around = Around::model,
                     .optimizer = OptimizerKind::adam,
                     .damage = static_cast<Damage>(damage),
                     .rank = rank,
                     .seed = 1});
  for (const bool has_prefix : {false, true})
    all.push_back({.world = {.size = 2},
                   .tensors = {{.shape = {2}}, {.shape = {3}}},
                   .has_prefix = has_prefix,
                   .has_module = true,
                   .seed = 1});
  all.push_back({.world = {.size = 2},
                 .tensors = {{.shape = {2}}, {.shape = {3}}},
                 .has_module = true,
                 .damage = Damage::lacks_an_entry,
                 .seed = 1});
  return all;
}

rc::Gen<WrittenTensor> tensors() {
  using gen::set;
  using rc::gen::element;
  return gen::build<WrittenTensor>(
      set(&WrittenTensor::is_buffer, rc::gen::weightedElement<bool>({{2, false}, {1, true}})),
      set(&WrittenTensor::dtype, rc::gen::weightedElement<Dtype>({{6, Dtype::float32},
                                                                  {2, Dtype::float64},
                                                                  {1, Dtype::float16},
                                                                  {1, Dtype::bfloat16},
                                                                  {1, Dtype::int64},
                                                                  {1, Dtype::int32},
                                                                  {1, Dtype::int16},
                                                                  {1, Dtype::int8},
                                                                  {1, Dtype::uint8},
                                                                  {1, Dtype::bool_},
                                                                  {1, Dtype::complex64},
                                                                  {1, Dtype::complex128}})),
      set(&WrittenTensor::shape, gen::lists<int64_t>(0, 4, element<int64_t>(1, 2, 2, 3, 0))),
      set(&WrittenTensor::layout,
          element(Layout::rows, Layout::transposed, Layout::behind, Layout::shared)));
}

rc::Gen<PythonFile> cases() {
  using gen::set;
  using rc::gen::arbitrary;
  using rc::gen::element;
  using rc::gen::inRange;
  return gen::build<PythonFile>(
      set(&PythonFile::world, gen::build<WorldSpec>(set(&WorldSpec::size, inRange(2, 5)))),
      set(&PythonFile::tensors, gen::lists(1, 6, tensors())),
      set(&PythonFile::around, element(Around::nothing, Around::model, Around::model,
                                       Around::model_state_dict, Around::model_state_dict)),
      set(&PythonFile::has_prefix), set(&PythonFile::has_module), set(&PythonFile::is_ordered),
      set(&PythonFile::has_parameters),
      set(&PythonFile::optimizer,
          element(OptimizerKind::none, OptimizerKind::sgd, OptimizerKind::momentum,
                  OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::amsgrad)),
      set(&PythonFile::groups, inRange(1, 4)), set(&PythonFile::is_older),
      set(&PythonFile::count_log2, element(0, 1, 3, 7, 8, 9, 15, 16, 31, 32, 47, 53, 62)),
      set(&PythonFile::protocol, inRange(2, 6)), set(&PythonFile::refers),
      set(&PythonFile::damage,
          rc::gen::weightedOneOf<Damage>(
              {{1, rc::gen::just(Damage::none)},
               {1, gen::map(inRange(1, kDamages),
                            [](int which) { return static_cast<Damage>(which); })}})),
      set(&PythonFile::entry, inRange(0, 6)),
      set(&PythonFile::rank,
          rc::gen::weightedOneOf<int>({{1, rc::gen::just(-1)}, {1, inRange(0, 60)}})),
      set(&PythonFile::seed, inRange<uint64_t>(0, 1 << 20)));
}

}  // namespace

Scenario files_of_pytorch_are_read() {
  return scenario<PythonFile>({
      .name = "checkpoint.files_of_pytorch_are_read",
      .claim = "A file that Python's torch.save wrote is loaded value by value, or refused on all "
               "ranks.",
      .in_full = "A file that Python's torch.save wrote is loaded value by value, however Python "
                 "wrote it; one that a rank cannot read is refused on every rank with one sentence "
                 "that says why, changes nothing, and leaves the ranks able to load a whole one.",
      .exactness = "bit-equal · same sentence",
      .source = "torch.save and pickletools; train/checkpoint.h; docs/ddp.md",
      .not_covered = "samplers and generators, compressed archives, files above 4 GB",
      .usual_mistake =
          "loading on rank 0 alone, or leaving out what a file lacks: ranks then train "
          "other models, and no error says so.",
      .tags = {"checkpoint", "errors"},
      .must_catch = {"checkpoint_loads_before_ranks_agree", "prefix_of_a_part_is_taken_away",
                     "prefix_of_some_names_is_taken_away", "python_names_beside_the_long_ones",
                     "python_prefix_is_kept", "python_tensors_begin_their_storage",
                     "python_whole_numbers_have_a_sign"},
      .draws = 80,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .program = program,
      .checks = {every_rank_receives_why, a_whole_file_is_loaded, a_damaged_file_changes_nothing},
      .labels = {{"a damaged file", 0.2,
                  [](const PythonFile& c) { return damage_of(c) != Damage::none; }},
                 {"a file that one rank alone cannot read", 0.1,
                  [](const PythonFile& c) {
                    return damage_of(c) != Damage::none && damaged_rank(c) >= 0;
                  }},
                 {"a part called module beside others", 0.2,
                  [](const PythonFile& c) { return c.has_module && tensors_of(c).size() > 1; }},
                 {"an optimizer with state", 0.18,
                  [](const PythonFile& c) {
                    return has_optimizer(c) && c.optimizer != OptimizerKind::sgd;
                  }},
                 {"protocol 4 and later", 0.25,
                  [](const PythonFile& c) { return c.protocol >= 4; }}},
  });
}

}  // namespace lockstep::scenarios::checkpoint_files_of_pytorch_are_read
