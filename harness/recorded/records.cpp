// Reads one record.
#include "harness/base/characters.h"
#include "harness/base/dtype.h"
#include "harness/recorded/history_files.h"
#include "harness/recorded/recorded_run.h"

namespace lockstep::recorded {

int64_t tensor_bytes(std::string_view dtype, const std::vector<int64_t>& shape) {
  int64_t bytes = traits_of(dtype).bytes;
  if (bytes == 0) return -1;
  for (const auto extent : shape) {
    if (extent < 0 || (extent > 0 && bytes > kRunBytesMost / extent)) return -1;
    bytes *= extent;
  }
  return bytes;
}

bool have_equal_bits(const Digests& a, const Digests& b) {
  return std::ranges::equal(a.values, b.values, {}, &Digest::bits, &Digest::bits);
}

std::string Fact::text(const char* field) const {
  const auto found = values.find(field);
  return found != values.end() && found->is_string() ? one_line(found->get<std::string>()) : "";
}

std::vector<std::string> Fact::texts(const char* field) const {
  std::vector<std::string> all;
  const auto found = values.find(field);
  if (found == values.end() || !found->is_array()) return all;
  for (const auto& each : *found)
    if (each.is_string()) all.push_back(each.get<std::string>());
  return all;
}

std::optional<int64_t> Fact::whole(const char* field) const {
  const auto found = values.find(field);
  if (found == values.end() || !found->is_number_integer()) return {};
  return found->get<int64_t>();
}

std::optional<double> Fact::number(const char* field) const {
  const auto found = values.find(field);
  if (found == values.end() || !found->is_number()) return {};
  return found->get<double>();
}

bool Fact::truth(const char* field) const {
  const auto found = values.find(field);
  return found != values.end() && found->is_boolean() && found->get<bool>();
}

const Fact* fact_in(const Record& record, std::string_view name) {
  const auto* fact = std::get_if<Fact>(&record.what);
  return fact && fact->name == name ? fact : nullptr;
}

const Fact* model_in(const Record& record) {
  const auto* fact = std::get_if<Fact>(&record.what);
  return fact && is_model(fact->name) ? fact : nullptr;
}

const Fact* optimizer_in(const Record& record) {
  const auto* fact = std::get_if<Fact>(&record.what);
  return fact && is_optimizer(fact->name) ? fact : nullptr;
}

const Digests* digests_in(const Record& record, std::string_view role) {
  const auto* is = std::get_if<Digests>(&record.what);
  return is && is->list->role == role ? is : nullptr;
}

}  // namespace lockstep::recorded
