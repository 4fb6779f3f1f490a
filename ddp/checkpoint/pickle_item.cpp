#include "ddp/checkpoint/pickle_item.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace lockstep {

namespace {

constexpr int kDepthMax = 64;

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

const std::vector<PickleItem>& PickleItem::tuple(std::size_t size_min) const {
  if (kind != Kind::kTuple || items->size() < size_min) refuse_pickle("a tuple is missing in it");
  return *items;
}

std::int64_t PickleItem::number() const {
  if (kind != Kind::kValue || !value.isInt()) refuse_pickle("a whole number is missing in it");
  return value.toInt();
}

std::string PickleItem::text() const {
  if (kind != Kind::kValue || !value.isString()) refuse_pickle("a text is missing in it");
  return value.toStringRef();
}

std::vector<std::int64_t> PickleItem::numbers() const {
  std::vector<std::int64_t> all;
  for (const PickleItem& each : tuple(0)) all.push_back(each.number());
  return all;
}

c10::IValue PickleItem::as_value() const {
  if (kind == Kind::kName)
    refuse_pickle("it holds a " + name +
                  ", expected tensors, numbers, texts, lists, tuples and dictionaries alone");
  if (kind == Kind::kTuple) {
    std::vector<c10::IValue> values;
    for (const PickleItem& each : *items) values.push_back(each.as_value());
    return c10::ivalue::Tuple::create(std::move(values));
  }
  if (kind != Kind::kValue) refuse_pickle("a value is missing in it");
  return value;
}
PickleItem PickleItem::named(std::string name) {
  return {.kind = PickleItem::Kind::kName, .value = {}, .name = std::move(name), .items = {}};
}

PickleItem PickleItem::of_value(c10::IValue value) {
  return {.kind = PickleItem::Kind::kValue, .value = std::move(value), .name = {}, .items = {}};
}

PickleItem PickleItem::tuple_of(std::vector<PickleItem> items) {
  int depth = 0;
  for (const PickleItem& each : items) depth = std::max(depth, each.depth + 1);
  if (depth > kDepthMax) refuse_pickle("its tuples are nested too deeply");
  return {.kind = PickleItem::Kind::kTuple,
          .value = {},
          .name = {},
          .items = std::make_shared<const std::vector<PickleItem>>(std::move(items)),
          .depth = depth};
}

PickleItem PickleItem::mark() {
  return {.kind = Kind::kMark, .value = {}, .name = {}, .items = {}};
}

at::Tensor rebuilt_tensor(const std::vector<PickleItem>& arguments) {
  if (arguments[0].kind != PickleItem::Kind::kStorage)
    refuse_pickle("a tensor without a storage is in it");
  const at::Tensor& storage = arguments[0].value.toTensor();
  const std::int64_t offset = arguments[1].number();
  const auto sizes = arguments[2].numbers(), strides = arguments[3].numbers();
  const auto bad = [] { refuse_pickle("a tensor in it reaches beyond its storage"); };
  if (sizes.size() != strides.size() || offset < 0 || offset > storage.numel()) bad();
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
