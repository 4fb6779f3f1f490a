#include "harness/worlds/sim/transport.h"

#include <torch/torch.h>

namespace lockstep::sim {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Milliseconds = std::chrono::milliseconds;

// The cost of polling for completion, so that a rank that only polls reaches its timeout, too.
constexpr Nanoseconds kLook = std::chrono::microseconds(50);

// The timeout that a group of simulated ranks reports; it ends no wait.
constexpr std::chrono::minutes kPatience{5};

// The backend of a simulated group for everything but collectives.
class Nowhere final : public c10d::Backend {
 public:
  Nowhere(int rank, int size) : Backend(rank, size) {}
  const std::string getBackendName() const override { return "memory"; }
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return c10::make_intrusive<Options>("memory", kPatience);
  }
};

// Waits for an event of the scheduler.
class SimWork final : public c10d::Work {
 public:
  struct Parts {
    Scheduler& scheduler;
    Event& over;
    std::string& error;
    std::shared_ptr<void> owner;  // of the event and the error
    What what;
    std::vector<at::Tensor> outputs;
    Milliseconds timeout;
    std::function<int()> source = [] { return -1; };
  };
  explicit SimWork(Parts parts) : parts_(std::move(parts)) {}

  bool isCompleted() override {
    if (is_over()) return true;
    parts_.scheduler.stand_back(kLook, parts_.what);
    return is_over();
  }
  bool isSuccess() const override { return is_over() && parts_.error.empty(); }
  std::exception_ptr exception() const override {
    if (!is_over() || parts_.error.empty()) return nullptr;
    return std::make_exception_ptr(std::runtime_error(parts_.error));
  }
  int sourceRank() const override { return parts_.source(); }
  std::vector<at::Tensor> result() override { return parts_.outputs; }
  void synchronize() override {}

  bool wait(Milliseconds timeout) override {
    if (timeout <= Milliseconds::zero()) timeout = parts_.timeout;
    const bool in_time =
        timeout <= Milliseconds::zero()
            ? parts_.scheduler.wait(parts_.over, parts_.what)
            : parts_.scheduler.wait(parts_.over, parts_.what, Nanoseconds(timeout));
    if (!in_time)
      throw std::runtime_error("timed out after " + std::to_string(timeout.count()) +
                               " ms, waiting for " + parts_.what());
    if (!parts_.error.empty()) throw std::runtime_error(parts_.error);
    return true;
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    parts_.scheduler.wait(parts_.over, parts_.what);
    auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    if (parts_.error.empty())
      future->markCompleted(c10::IValue(parts_.outputs));
    else
      future->setError(exception());
    return future;
  }

 private:
  bool is_over() const {
    return parts_.over.has_happened() && parts_.over.when() <= parts_.scheduler.now();
  }

  const Parts parts_;
};

}  // namespace

// One rank's side of a group.
class DeviceSlot final : public Carrier {
 public:
  DeviceSlot(std::shared_ptr<SharedGroup> group, int member)
      : group_(std::move(group)), member_(member) {}

  WorkPtr carry(Call call, const Collective& issued, const std::shared_ptr<TapLog>& log) override {
    if (is_point_to_point(call.op)) return pass(std::move(call), issued, log);
    const auto outputs = call.outputs;
    const auto timeout = call.timeout;
    auto& matcher = group_->matcher_;
    const auto session = matcher.join(member_, issued, {std::move(call), issued, log});
    if (matcher.is_complete(*session)) group_->complete(*session);
    return c10::make_intrusive<SimWork>(SimWork::Parts{
        .scheduler = group_->scheduler_,
        .over = session->over,
        .error = session->error,
        .owner = session,
        .what = [group = group_, session = session.get(),
                 member = member_] { return group->matcher_.waiting_text(*session, member); },
        .outputs = outputs,
        .timeout = timeout});
  }

  Part split(const std::vector<int>& members, const std::string& name) override {
    std::vector<int> ranks;
    for (const int member : members)
      ranks.push_back(group_->matcher_.ranks().at(static_cast<size_t>(member)));
    const auto own = std::find(members.begin(), members.end(), member_) - members.begin();
    const auto index = static_cast<int>(own);
    return {c10::make_intrusive<Nowhere>(index, static_cast<int>(members.size())),
            std::make_shared<DeviceSlot>(group_->find_(name, ranks), index)};
  }

 private:
  WorkPtr pass(Call call, const Collective& issued, const std::shared_ptr<TapLog>& log) {
    const auto outputs = call.outputs;
    const bool sends = call.op == "send";
    const std::string text = text_of(issued) + ", which nobody has answered";
    SharedGroup::RankArguments brought{std::move(call), issued, log};
    const auto message = sends ? group_->send(member_, std::move(brought))
                               : group_->receive(member_, std::move(brought));
    return c10::make_intrusive<SimWork>(
        SimWork::Parts{.scheduler = group_->scheduler_,
                       .over = message->over,
                       .error = message->error,
                       .owner = message,
                       .what = [text] { return text; },
                       .outputs = outputs,
                       .timeout = Milliseconds::zero(),
                       .source = [message = message.get()] { return message->from; }});
  }

  const std::shared_ptr<SharedGroup> group_;
  const int member_;
};

SharedGroup::SharedGroup(const std::string& name, const std::vector<int>& ranks,
                         const ReductionOrder& order, const Links& links, Scheduler& scheduler,
                         Find find)
    : name_(name),
      find_(std::move(find)),
      order_(order),
      links_(links),
      scheduler_(scheduler),
      matcher_(name, ranks, scheduler) {}

c10::intrusive_ptr<c10d::ProcessGroup> SharedGroup::joined_by(
    const std::shared_ptr<SharedGroup>& group, int member,
    const c10::intrusive_ptr<c10d::Store>& store, const std::shared_ptr<TapLog>& log) {
  const auto size = static_cast<int>(group->matcher_.ranks().size());
  const auto tap = c10::make_intrusive<Tap>(c10::make_intrusive<Nowhere>(member, size), log,
                                            std::make_shared<DeviceSlot>(group, member));
  auto joined = c10::make_intrusive<c10d::ProcessGroup>(store, member, size);
  const auto type = c10d::ProcessGroup::BackendType::CUSTOM;
  joined->setBackend(c10::DeviceType::CPU, type, tap);
  joined->setDefaultBackend(type);
  joined->setGroupName(group->name_);
  return joined;
}

void SharedGroup::complete(PendingCollective& session) {
  std::vector<const Call*> calls;
  int64_t bytes = 0;
  for (const auto& one : session.brought) {
    calls.push_back(&one->call);
    bytes = std::max(bytes, bytes_of(one->call));
  }
  try {
    carry_out(calls, order_);
  } catch (const c10::Error& error) {
    return matcher_.fail(session, error.what_without_backtrace());
  }
  busy_until_ = std::max(busy_until_, session.last_arrival) +
                links_.cost(calls.front()->op, bytes, matcher_.ranks());
  scheduler_.happen(session.over, busy_until_);
  for (auto& one : session.brought) {
    one->log->done(one->issued.sequence, busy_until_.count());
    one.reset();  // only owners keep tensors alive
  }
}

SharedGroup::MessagePtr SharedGroup::send(int member, RankArguments brought) {
  auto message = std::make_shared<Message>();
  message->from = member;
  message->posted = scheduler_.now();
  message->brought = std::move(brought);
  const int to = message->brought.call.root;
  const auto wanted = std::find_if(wanted_.begin(), wanted_.end(), [&](const MessagePtr& other) {
    const Call& call = other->brought.call;
    const bool from_here = call.root == member || call.op == "recvAnysource";
    return other->from == to && from_here && call.tag == message->brought.call.tag;
  });
  if (wanted == wanted_.end()) {
    sent_.push_back(message);
    fail_if_gone(*message, to);
    return message;
  }
  const auto received = *wanted;
  wanted_.erase(wanted);
  deliver(*message, *received);
  return message;
}

// Until delivery, `from` of a receive request is the rank that requests it.
SharedGroup::MessagePtr SharedGroup::receive(int member, RankArguments brought) {
  auto message = std::make_shared<Message>();
  message->from = member;
  message->posted = scheduler_.now();
  message->brought = std::move(brought);
  const Call& call = message->brought.call;
  const auto sent = std::find_if(sent_.begin(), sent_.end(), [&](const MessagePtr& other) {
    const bool from_there = other->from == call.root || call.op == "recvAnysource";
    return other->brought.call.root == member && from_there && other->brought.call.tag == call.tag;
  });
  if (sent == sent_.end()) {
    wanted_.push_back(message);
    if (call.op == "recv") fail_if_gone(*message, call.root);
    return message;
  }
  const auto arrived = *sent;
  sent_.erase(sent);
  deliver(*arrived, *message);
  return message;
}

void SharedGroup::deliver(Message& sent, Message& received) {
  const int to = std::exchange(received.from, sent.from);
  std::string error;
  try {
    carry_out({&sent.brought.call, &received.brought.call}, order_);
  } catch (const c10::Error& broken) {
    error = broken.what_without_backtrace();
  }
  const auto& ranks = matcher_.ranks();
  const auto when =
      std::max(sent.posted, received.posted) +
      links_.cost("send", bytes_of(sent.brought.call),
                  {ranks[static_cast<size_t>(sent.from)], ranks[static_cast<size_t>(to)]});
  for (auto* message : {&sent, &received}) {
    message->error = error;
    scheduler_.happen(message->over, when);
    if (error.empty()) message->brought.log->done(message->brought.issued.sequence, when.count());
    message->brought.call = {};
  }
}

void SharedGroup::fail_if_gone(Message& message, int peer) {
  const auto gone = gone_.find(peer);
  if (gone == gone_.end()) return;
  message.error = "rank " + std::to_string(matcher_.ranks()[static_cast<size_t>(peer)]) +
                  " never answered " + text_of(message.brought.issued) + ": " + gone->second;
  scheduler_.happen(message.over, message.posted);
}

void SharedGroup::leave(int rank, const std::string& how) {
  const auto& ranks = matcher_.ranks();
  const auto member = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  if (member == static_cast<int>(ranks.size())) return;
  matcher_.leave(rank, how);
  gone_[member] = how;
  for (const auto* waiting : {&sent_, &wanted_})
    for (const auto& message : *waiting)
      if (message->brought.call.root == member) fail_if_gone(*message, member);
}

}  // namespace lockstep::sim
