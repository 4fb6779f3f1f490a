#include "train/checkpoint/pickle_item.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace lockstep {

namespace {

// Values are destroyed one within the other. Our own have six levels.
constexpr int kDepthMax = 64;
constexpr std::size_t kNameBytesMost = 1000;
constexpr std::size_t kDimensionsMost = 64;

const std::map<std::string, at::ScalarType>& storage_types() {
  static const std::map<std::string, at::ScalarType> all = {
      {"torch.DoubleStorage", at::kDouble},
      {"torch.FloatStorage", at::kFloat},
      {"torch.HalfStorage", at::kHalf},
      {"torch.BFloat16Storage", at::kBFloat16},
      {"torch.LongStorage", at::kLong},
      {"torch.IntStorage", at::kInt},
      {"torch.ShortStorage", at::kShort},
      {"torch.CharStorage", at::kChar},
      {"torch.ByteStorage", at::kByte},
      {"torch.BoolStorage", at::kBool},
      {"torch.ComplexFloatStorage", at::kComplexFloat},
      {"torch.ComplexDoubleStorage", at::kComplexDouble}};
  return all;
}

}  // namespace

std::optional<at::ScalarType> dtype_of_storage(const std::string& name) {
  const auto found = storage_types().find(name);
  if (found == storage_types().end()) return std::nullopt;
  return found->second;
}

void refuse_pickle(const std::string& what) {
  throw std::runtime_error(what);
}

void check_name_in_pickle(const std::string& name) {
  const auto is_printable = [](char byte) { return byte >= ' ' && byte <= '~'; };
  if (name.size() > kNameBytesMost || !std::all_of(name.begin(), name.end(), is_printable))
    refuse_pickle("a name in it is too long or has odd characters");
}

PickleItem PickleItem::named(std::string name) {
  check_name_in_pickle(name);
  return {Kind::kName, std::move(name), {}};
}

PickleItem PickleItem::container(c10::IValue value) {
  return {Kind::kValue, std::move(value), std::make_shared<Nested>()};
}

PickleItem PickleItem::tuple_of(std::vector<PickleItem> items) {
  PickleItem tuple{Kind::kTuple, {}, std::make_shared<Nested>()};
  for (const PickleItem& each : items) tuple.take_in(each);
  tuple.nested->items = std::move(items);
  return tuple;
}

// A nested item is not changed any more, so that its depth stays.
void PickleItem::take_in(const PickleItem& item) {
  if (nested->is_shared) refuse_pickle("a value in it is changed after it was used");
  if (!item.nested) return;
  item.nested->is_shared = true;
  nested->depth = std::max(nested->depth, item.nested->depth + 1);
  if (nested->depth > kDepthMax) refuse_pickle("its values are nested too deeply");
}

const std::vector<PickleItem>& PickleItem::tuple(std::size_t size_min) const {
  if (kind != Kind::kTuple || nested->items.size() < size_min)
    refuse_pickle("a tuple is missing in it");
  return nested->items;
}

std::int64_t PickleItem::number() const {
  if (kind != Kind::kValue || !value.isInt()) refuse_pickle("a whole number is missing in it");
  return value.toInt();
}

const std::string& PickleItem::text() const {
  if (kind != Kind::kValue || !value.isString()) refuse_pickle("a text is missing in it");
  check_name_in_pickle(value.toStringRef());
  return value.toStringRef();
}

const std::string& PickleItem::name() const {
  if (kind != Kind::kName) refuse_pickle("a name is missing in it");
  return value.toStringRef();
}

std::vector<std::int64_t> PickleItem::extents() const {
  if (tuple(0).size() > kDimensionsMost) refuse_pickle("a tensor in it has too many dimensions");
  std::vector<std::int64_t> all;
  for (const PickleItem& each : tuple(0)) all.push_back(each.number());
  return all;
}

c10::IValue PickleItem::as_value() const {
  if (kind == Kind::kName)
    refuse_pickle("it holds a " + name() +
                  ", expected tensors, numbers, texts, lists, tuples and dictionaries alone");
  if (kind == Kind::kValue) return value;
  if (kind != Kind::kTuple) refuse_pickle("a value is missing in it");
  if (nested->value.isTuple()) return nested->value;
  std::vector<c10::IValue> values;
  for (const PickleItem& each : nested->items) values.push_back(each.as_value());
  nested->value = c10::ivalue::Tuple::create(std::move(values));
  return nested->value;
}

at::Tensor rebuilt_tensor(const std::vector<PickleItem>& arguments) {
  if (arguments[0].kind != PickleItem::Kind::kStorage)
    refuse_pickle("a tensor without a storage is in it");
  const at::Tensor& storage = arguments[0].value.toTensor();
  const std::int64_t offset = arguments[1].number();
  const auto sizes = arguments[2].extents(), strides = arguments[3].extents();
  const auto bad = [] { refuse_pickle("a tensor in it reaches beyond its storage"); };
  if (sizes.size() != strides.size() || offset < 0) bad();
  std::int64_t last = offset;
  bool is_empty = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || strides[i] < 0) bad();
    is_empty = is_empty || sizes[i] == 0;
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(std::max<std::int64_t>(sizes[i] - 1, 0), strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      bad();
  }
  if (!is_empty && last >= storage.numel()) bad();
  return storage.as_strided(sizes, strides, offset);
}

}  // namespace lockstep
