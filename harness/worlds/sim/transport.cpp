#include "harness/worlds/sim/transport.h"

#include "harness/worlds/sim/work.h"

#include <torch/torch.h>

namespace lockstep::sim {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

using Milliseconds = std::chrono::milliseconds;

// The timeout that a group of simulated ranks reports unless it was given one; it ends no wait.
constexpr std::chrono::minutes kPatience{5};
constexpr Milliseconds kNone{0};

// The timeout of a rank's operations in a group, in virtual time; zero: none.
using Timeout = std::shared_ptr<Milliseconds>;

// The backend of a simulated group for everything but collectives.
class Nowhere final : public c10d::Backend {
 public:
  Nowhere(int rank, int size, Timeout timeout)
      : Backend(rank, size), timeout_(std::move(timeout)) {}
  const std::string getBackendName() const override { return "memory"; }
  // As Gloo's groups, which count their collectives.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return 0; }
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return c10::make_intrusive<Options>("memory",
                                        *timeout_ > Milliseconds::zero() ? *timeout_ : kPatience);
  }
  void setTimeout(Milliseconds timeout) override { *timeout_ = timeout; }

 private:
  const Timeout timeout_;
};

}  // namespace

// One rank's side of a group.
class DeviceSlot final : public Carrier {
 public:
  DeviceSlot(std::shared_ptr<SharedGroup> group, int member, Timeout timeout)
      : group_(std::move(group)), member_(member), timeout_(std::move(timeout)) {}

  WorkPtr carry(Call call, const Collective& issued, const std::shared_ptr<TapLog>& log) override {
    group_->scheduler_.require_thread_of_rank();
    if (is_point_to_point(call.op)) return pass(std::move(call), issued, log);
    const auto outputs = call.outputs;
    const auto timeout = call.timeout > Milliseconds::zero() ? call.timeout : *timeout_;
    auto& matcher = group_->matcher_;
    const auto session = matcher.join(member_, issued, {std::move(call), issued, log, {}});
    if (matcher.is_complete(*session)) group_->complete(*session);
    return c10::make_intrusive<SimWork>(SimWork::Parts{
        .scheduler = group_->scheduler_,
        .over = session->over,
        .error = session->error,
        .owner = session,
        .what = [group = group_, session = session.get(),
                 member = member_] { return group->matcher_.waiting_text(*session, member); },
        .outputs = outputs,
        .timeout = timeout,
        .arrive =
            [session, outputs, at = static_cast<size_t>(member_)] {
              auto& brought = session->brought[at];
              if (brought) deliver(brought->result, outputs);
              brought.reset();
            }});
  }

  Part split(const std::vector<int>& members, const std::string& name,
             Milliseconds given) override {
    std::vector<int> ranks;
    for (const int member : members)
      ranks.push_back(group_->matcher_.ranks().at(static_cast<size_t>(member)));
    const auto own = std::find(members.begin(), members.end(), member_) - members.begin();
    const auto index = static_cast<int>(own);
    const auto timeout = std::make_shared<Milliseconds>(given == kPatience ? kNone : given);
    return {c10::make_intrusive<Nowhere>(index, static_cast<int>(members.size()), timeout),
            std::make_shared<DeviceSlot>(group_->find_(name, ranks), index, timeout)};
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
                       .timeout = *timeout_,
                       .source = [message = message.get()] { return message->from; }});
  }

  const std::shared_ptr<SharedGroup> group_;
  const int member_;
  const Timeout timeout_;
};

SharedGroup::SharedGroup(const std::string& name, const std::vector<int>& ranks,
                         const ReductionOrder& order, const Arrival& arrival, const Links& links,
                         Scheduler& scheduler, Find find)
    : name_(name),
      find_(std::move(find)),
      order_(order),
      arrival_(arrival),
      links_(links),
      scheduler_(scheduler),
      matcher_(name, ranks, scheduler) {}

c10::intrusive_ptr<c10d::ProcessGroup> SharedGroup::joined_by(
    const std::shared_ptr<SharedGroup>& group, int member,
    const c10::intrusive_ptr<c10d::Store>& store, const std::shared_ptr<TapLog>& log) {
  const auto size = static_cast<int>(group->matcher_.ranks().size());
  const auto timeout = std::make_shared<Milliseconds>();
  const auto tap =
      c10::make_intrusive<Tap>(c10::make_intrusive<Nowhere>(member, size, timeout), log,
                               std::make_shared<DeviceSlot>(group, member, timeout));
  auto joined = c10::make_intrusive<c10d::ProcessGroup>(store, member, size);
  const auto type = c10d::ProcessGroup::BackendType::CUSTOM;
  joined->setBackend(c10::DeviceType::CPU, type, tap);
  joined->setDefaultBackend(type);
  joined->setGroupName(group->name_);
  return joined;
}

bool SharedGroup::arrives_late(const PendingCollective& session, size_t member) const {
  const Call& call = session.brought[member]->call;
  return !has_sparse_tensors(call) && is_written(call, member) &&
         arrival_.is_late(session.number, member);
}

void SharedGroup::complete(PendingCollective& session) {
  std::vector<const Call*> calls;
  int64_t bytes = 0;
  for (size_t member = 0; member < session.brought.size(); ++member) {
    auto& one = *session.brought[member];
    bytes = std::max(bytes, bytes_of(one.call));
    if (arrives_late(session, member)) {
      one.call = on_copies(one.call);
      one.result = one.call.outputs;
    }
    calls.push_back(&one.call);
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
    one->call = {};  // only owners keep tensors alive
    if (one->result.empty()) one.reset();
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
