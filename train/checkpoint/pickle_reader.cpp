#include "train/checkpoint/pickle_reader.h"

#include "train/checkpoint/pickle_bytes.h"
#include "train/checkpoint/pickle_item.h"
#include "train/checkpoint/pickle_opcodes.h"

#include <torch/torch.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

using AnyList = c10::impl::GenericList;
using Item = PickleItem;

constexpr std::size_t kKeyBytesMost = 1000;  // of what is compared again and again

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

  std::vector<Item> pop_many(std::size_t count) {
    if (count > stack_.size()) refuse_pickle("its stack is empty");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<Item> items(std::move_iterator(first), std::move_iterator(stack_.end()));
    stack_.erase(first, stack_.end());
    return items;
  }

  std::vector<Item> pop_to_mark() {
    const auto is_mark = [](const Item& item) { return item.kind == Item::Kind::kMark; };
    const auto mark = std::find_if(stack_.rbegin(), stack_.rend(), is_mark);
    if (mark == stack_.rend()) refuse_pickle("a mark is missing in it");
    auto items = pop_many(static_cast<std::size_t>(mark - stack_.rbegin()));
    stack_.pop_back();
    return items;
  }

  void push(c10::IValue value) { stack_.push_back(Item::of_value(std::move(value))); }

  void push_dict() {
    const c10::intrusive_ptr<torch::CustomClassHolder> dict = c10::make_intrusive<PickleDict>();
    stack_.push_back(Item::container(c10::IValue::make_capsule(dict)));
  }

  PickleDict& top_dict() {
    const auto dict = top().kind == Item::Kind::kValue ? pickle_dict(top().value) : nullptr;
    if (!dict) refuse_pickle("a dictionary is missing in it");
    return *dict;
  }

  void append(const std::vector<Item>& items) {
    if (top().kind != Item::Kind::kValue || !top().value.isList())
      refuse_pickle("a list is missing in it");
    auto list = top().value.toList();
    for (const Item& each : items) {
      top().take_in(each);
      list.push_back(each.as_value());
    }
  }

  void set(const std::vector<Item>& items) {
    PickleDict& dict = top_dict();
    if (items.size() % 2 != 0) refuse_pickle("a key in it has no value");
    for (std::size_t i = 0; i < items.size(); i += 2) {
      const c10::IValue key = items[i].as_value();
      if (!key.isString() && !key.isInt())
        refuse_pickle("a key in it is neither a text nor a whole number");
      if (key.isString() && key.toStringRef().size() > kKeyBytesMost)
        refuse_pickle("a key in it is too long");
      top().take_in(items[i + 1]);
      dict.entries.insert_or_assign(key, items[i + 1].as_value());
    }
  }

  void put(std::size_t place) { memo_[place] = top(); }

  void get(std::size_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) refuse_pickle("it refers to what is not there");
    if (found->second.nested) found->second.nested->is_shared = true;
    stack_.push_back(found->second);
  }

  // The functions that a plain file calls.
  void reduce() {
    const Item arguments = pop();
    const Item function = pop();
    const std::string& name = function.name();
    if (name == "collections.OrderedDict" && arguments.tuple(0).empty()) {
      push_dict();
    } else if (name == "torch._utils._rebuild_tensor_v2") {
      push(rebuilt_tensor(arguments.tuple(4)));
    } else if (name == "torch._utils._rebuild_parameter") {
      stack_.push_back(arguments.tuple(1)[0]);
    } else if (name == "torch.Size") {
      stack_.push_back(arguments.tuple(1)[0]);
    } else {
      static_cast<void>(function.as_value());
    }
  }

  // Attributes, which only an OrderedDict may have.
  void build() {
    pop();
    top_dict();
  }

  void load_storage() {
    const Item id = pop();
    const auto& parts = id.tuple(5);
    const auto dtype = dtype_of_storage(parts[1].name());
    if (parts[0].text() != "storage" || !dtype)
      refuse_pickle("it holds a storage of an unknown kind, " + parts[1].name());
    const std::int64_t count = parts[4].number();
    if (count < 0 || count > std::numeric_limits<std::int64_t>::max() / 16)
      refuse_pickle("a storage in it has no size");
    Item storage = Item::of_value(read_storage_(parts[2].text(), *dtype, count));
    storage.kind = Item::Kind::kStorage;
    stack_.push_back(std::move(storage));
  }

  bool step() {
    switch (const auto opcode = bytes_.take_number<std::uint8_t>(); opcode) {
      case kProto:
        bytes_.take(1);
        return true;
      case kFrame:
        bytes_.take(8);
        return true;
      case kStop:
        return false;
      case kMark:
        stack_.push_back(Item::mark());
        return true;
      case kGlobal: {
        const std::string module = bytes_.take_line();
        stack_.push_back(Item::named(module + "." + bytes_.take_line()));
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
      case kEmptyList:
        stack_.push_back(Item::container(AnyList(c10::AnyType::get())));
        return true;
      case kEmptyDict:
        push_dict();
        return true;
      case kAppend:
        append(pop_many(1));
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

  bool step_of_memo(std::uint8_t opcode) {
    switch (opcode) {
      case kBinPut:
        put(bytes_.take_number<std::uint8_t>());
        return true;
      case kLongBinPut:
        put(bytes_.take_number<std::uint32_t>());
        return true;
      case kMemoize:
        put(memo_.size());
        return true;
      case kBinGet:
        get(bytes_.take_number<std::uint8_t>());
        return true;
      case kLongBinGet:
        get(bytes_.take_number<std::uint32_t>());
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
        return static_cast<std::int64_t>(bytes_.take_number<std::int32_t>());
      case kBinInt1:
        return static_cast<std::int64_t>(bytes_.take_number<std::uint8_t>());
      case kBinInt2:
        return static_cast<std::int64_t>(bytes_.take_number<std::uint16_t>());
      case kLong1:
        return bytes_.take_long();
      case kBinFloat:
        return bytes_.take_double();
      case kBinUnicode:
        return std::string(bytes_.take(bytes_.take_number<std::uint32_t>()));
      case kShortBinUnicode:
        return std::string(bytes_.take(bytes_.take_number<std::uint8_t>()));
      default:
        refuse_pickle("it has the unknown opcode " + std::to_string(opcode));
    }
  }

  PickleBytes bytes_;
  const ReadStorage& read_storage_;
  std::vector<Item> stack_;
  std::map<std::size_t, Item> memo_;
};

}  // namespace

bool KeyOrder::operator()(const c10::IValue& one, const c10::IValue& other) const {
  if (one.isInt() != other.isInt()) return one.isInt();
  return one.isInt() ? one.toInt() < other.toInt() : one.toStringRef() < other.toStringRef();
}

c10::intrusive_ptr<PickleDict> pickle_dict(const c10::IValue& value) {
  return value.isCapsule() ? c10::static_intrusive_pointer_cast<PickleDict>(value.toCapsule())
                           : nullptr;
}

c10::IValue read_pickle(std::string_view bytes, const ReadStorage& read_storage) {
  return Reader(bytes, read_storage).read();
}

}  // namespace lockstep
