#include "ddp/checkpoint/pickle_reader.h"

#include "ddp/checkpoint/pickle_item.h"
#include "ddp/checkpoint/pickle_opcodes.h"

#include <torch/torch.h>

#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

using AnyDict = c10::impl::GenericDict;
using AnyList = c10::impl::GenericList;
using Item = PickleItem;

class Reader {
 public:
  Reader(std::string_view bytes, const ReadStorage& read_storage)
      : bytes_(bytes), read_storage_(read_storage) {}

  c10::IValue read() {
    while (step()) {
    }
    return pop().as_value();
  }

 private:
  std::string_view take(std::size_t size) {
    if (size > bytes_.size() - at_) refuse_pickle("its end is missing");
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }

  // Little-endian, as the machines are for which LibTorch is built.
  template <class Number>
  Number take_number() {
    Number number{};
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
    return number;
  }

  std::string take_line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) refuse_pickle("its end is missing");
    std::string line(take(end - at_));
    take(1);
    return line;
  }

  double take_double() {
    std::uint64_t number = 0;
    for (const char byte : take(8)) number = number << 8 | static_cast<unsigned char>(byte);
    return std::bit_cast<double>(number);
  }

  std::int64_t take_long() {
    const std::string_view digits = take(take_number<std::uint8_t>());
    if (digits.size() > 8) refuse_pickle("a whole number of more than 64 bits is in it");
    std::uint64_t number = !digits.empty() && digits.back() < 0 ? ~std::uint64_t{0} : 0;
    std::memcpy(&number, digits.data(), digits.size());
    return std::bit_cast<std::int64_t>(number);
  }

  Item pop() {
    if (stack_.empty()) refuse_pickle("its stack is empty");
    Item item = std::move(stack_.back());
    stack_.pop_back();
    return item;
  }

  Item& top() {
    if (stack_.empty()) refuse_pickle("its stack is empty");
    return stack_.back();
  }

  std::vector<Item> pop_to_mark() {
    std::vector<Item> items;
    for (Item item = pop(); item.kind != Item::Kind::kMark; item = pop())
      items.insert(items.begin(), std::move(item));
    return items;
  }

  std::vector<Item> pop_many(std::size_t count) {
    std::vector<Item> items;
    for (std::size_t i = 0; i < count; ++i) items.insert(items.begin(), pop());
    return items;
  }

  void push(c10::IValue value) { stack_.push_back(Item::of_value(std::move(value))); }

  void append(const std::vector<Item>& items) {
    if (top().kind != Item::Kind::kValue || !top().value.isList())
      refuse_pickle("a list is missing in it");
    auto list = top().value.toList();
    for (const Item& each : items) list.push_back(each.as_value());
  }

  void set(const std::vector<Item>& items) {
    if (top().kind != Item::Kind::kValue || !top().value.isGenericDict() || items.size() % 2 != 0)
      refuse_pickle("a dictionary is missing in it");
    auto dict = top().value.toGenericDict();
    for (std::size_t i = 0; i < items.size(); i += 2) {
      const c10::IValue key = items[i].as_value();
      if (!key.isString() && !key.isInt())
        refuse_pickle("a key in it is neither a text nor a whole number");
      dict.insert_or_assign(key, items[i + 1].as_value());
    }
  }

  void get(std::size_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) refuse_pickle("it refers to what is not there");
    stack_.push_back(found->second);
  }

  // The functions that a plain file calls.
  void reduce() {
    const Item arguments = pop();
    const Item function = pop();
    if (function.kind != Item::Kind::kName) refuse_pickle("a function is missing in it");
    if (function.name == "collections.OrderedDict" && arguments.tuple(0).empty()) {
      push(AnyDict(c10::AnyType::get(), c10::AnyType::get()));
    } else if (function.name == "torch._utils._rebuild_tensor_v2") {
      push(rebuilt_tensor(arguments.tuple(4)));
    } else if (function.name == "torch._utils._rebuild_parameter") {
      stack_.push_back(arguments.tuple(1)[0]);
    } else if (function.name == "torch.Size") {
      stack_.push_back(arguments.tuple(1)[0]);
    } else {
      static_cast<void>(function.as_value());
    }
  }

  // Attributes, which only an OrderedDict may have.
  void build() {
    pop();
    if (top().kind != Item::Kind::kValue || !top().value.isGenericDict())
      refuse_pickle("it holds an object that is no dictionary");
  }

  void load_storage() {
    const Item id = pop();
    const auto& parts = id.tuple(5);
    const auto dtype = dtype_of_storage(parts[1].name);
    if (parts[0].text() != "storage" || !dtype)
      refuse_pickle("it holds a storage of an unknown kind, " + parts[1].name);
    const std::int64_t count = parts[4].number();
    if (count < 0 || count > std::numeric_limits<std::int64_t>::max() / 16)
      refuse_pickle("a storage in it has no size");
    Item storage = Item::of_value(read_storage_(parts[2].text(), *dtype, count));
    storage.kind = Item::Kind::kStorage;
    stack_.push_back(std::move(storage));
  }

  bool step() {
    switch (const auto opcode = take_number<std::uint8_t>(); opcode) {
      case kProto:
        take(1);
        return true;
      case kFrame:
        take(8);
        return true;
      case kStop:
        return false;
      case kMark:
        stack_.push_back(Item::mark());
        return true;
      case kGlobal: {
        const std::string module = take_line();
        stack_.push_back(Item::named(module + "." + take_line()));
        return true;
      }
      case kStackGlobal: {
        const auto names = pop_many(2);
        stack_.push_back(Item::named(names[0].text() + "." + names[1].text()));
        return true;
      }
      case kTuple:
        stack_.push_back(Item::tuple_of(pop_to_mark()));
        return true;
      case kEmptyTuple:
        stack_.push_back(Item::tuple_of({}));
        return true;
      case kTuple1:
      case kTuple2:
      case kTuple3:
        stack_.push_back(Item::tuple_of(pop_many(static_cast<std::size_t>(opcode - kTuple1 + 1))));
        return true;
      case kAppend:
        append_one();
        return true;
      case kAppends:
        append(pop_to_mark());
        return true;
      case kSetItem:
        set(pop_many(2));
        return true;
      case kSetItems:
        set(pop_to_mark());
        return true;
      case kReduce:
        reduce();
        return true;
      case kBuild:
        build();
        return true;
      case kBinPersid:
        load_storage();
        return true;
      default:
        return step_of_memo(opcode);
    }
  }

  void append_one() {
    const auto item = pop_many(1);
    append(item);
  }

  bool step_of_memo(std::uint8_t opcode) {
    switch (opcode) {
      case kBinPut:
        memo_[take_number<std::uint8_t>()] = top();
        return true;
      case kLongBinPut:
        memo_[take_number<std::uint32_t>()] = top();
        return true;
      case kMemoize:
        memo_[memo_.size()] = top();
        return true;
      case kBinGet:
        get(take_number<std::uint8_t>());
        return true;
      case kLongBinGet:
        get(take_number<std::uint32_t>());
        return true;
      default:
        push(value_of(opcode));
        return true;
    }
  }

  c10::IValue value_of(std::uint8_t opcode) {
    switch (opcode) {
      case kNone:
        return {};
      case kNewTrue:
        return true;
      case kNewFalse:
        return false;
      case kBinInt:
        return static_cast<std::int64_t>(take_number<std::int32_t>());
      case kBinInt1:
        return static_cast<std::int64_t>(take_number<std::uint8_t>());
      case kBinInt2:
        return static_cast<std::int64_t>(take_number<std::uint16_t>());
      case kLong1:
        return take_long();
      case kBinFloat:
        return take_double();
      case kBinUnicode:
        return std::string(take(take_number<std::uint32_t>()));
      case kShortBinUnicode:
        return std::string(take(take_number<std::uint8_t>()));
      case kEmptyList:
        return AnyList(c10::AnyType::get());
      case kEmptyDict:
        return AnyDict(c10::AnyType::get(), c10::AnyType::get());
      default:
        refuse_pickle("it has the unknown opcode " + std::to_string(opcode));
    }
  }

  const std::string_view bytes_;
  const ReadStorage& read_storage_;
  std::size_t at_ = 0;
  std::vector<Item> stack_;
  std::map<std::size_t, Item> memo_;
};

}  // namespace

c10::IValue read_pickle(std::string_view bytes, const ReadStorage& read_storage) {
  return Reader(bytes, read_storage).read();
}

}  // namespace lockstep
