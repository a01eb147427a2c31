#include "plugins/collectors/nccl/collectives_join.h"

#include <utility>

#include "base/result.h"
#include "catalog/nccl.h"
#include "net/message/address.h"
#include "plugins/latest_snapshot.h"

namespace gpulens {

void CheckCollectives(CollectivesOptions options, ConfigFaults& faults) {
  const bool sends = options.Text("role") == "send";
  const auto& urls = options.Texts("join_urls");
  if (sends == urls.empty()) {
    options.Refuse(sends ? CollectivesOptions::Key("role") : CollectivesOptions::Key("join_urls"), faults,
                   "role: send and join_urls must be set together", "set both or neither");
  }
  for (const std::string& text : urls) {
    const auto url = ParseHttpUrl(text);
    if (!url) options.Refuse("join_urls", faults, "join_urls: " + url.error().detail);
    else CheckRemote(options.Group(kTransportKey), *url, faults);
  }
}

Result<std::unique_ptr<CollectivesJoin>> CollectivesJoin::Open(CollectivesOptions options, Env& env) {
  std::unique_ptr<CollectivesJoin> made(new CollectivesJoin(env));
  if (options.Text("role") == "send") {
    ASSIGN_OR_RETURN(made->sender_,
                     BatchSender::Open(options.Texts("join_urls"), options.Group(kTransportKey), env));
    return made;
  }
  collectives::Diagnosis::Options diagnosis;
  diagnosis.hang_after = options.Time("hang_after");
  made->diagnosis_.emplace(diagnosis);
  if (options.Text("role") == "join") {
    if (!env.collectives)
      return Status{Code::kUnavailable, "batches of other agents are received by the agent alone"};
    made->joins_ = true;
    env.collectives->AddConsumer();
  }
  return made;
}

CollectivesJoin::~CollectivesJoin() {
  if (joins_) env_.collectives->RemoveConsumer();
}

void CollectivesJoin::Take(collectives::Batch own, Instant now) {
  if (env_.latest) {
    if (const Ref<const Snapshot> snapshot = env_.latest->latest()) hints_.Read(*snapshot, now);
    hints_.AddTo(own, now);
  }
  if (sender_) return sender_->Send(std::move(own), now);
  diagnosis_->Add(own, now);
  if (joins_) {
    for (const collectives::Batch& batch : env_.collectives->Take()) {
      ++received_;
      diagnosis_->Add(batch, now);
    }
  }
  diagnosis_->Advance(now);
  if (joins_) env_.collectives->SetWantedLinks(wanted_links());
}

std::vector<uint64_t> CollectivesJoin::wanted_links() const {
  if (sender_) return sender_->wanted_links();
  std::vector<uint64_t> wanted;
  for (const collectives::Fault& fault : diagnosis_->faults()) {
    if (fault.kind == collectives::FaultKind::kSlowCommunication &&
        diagnosis_->wants_links(fault.communicator))
      wanted.push_back(fault.communicator);
  }
  return wanted;
}

void CollectivesJoin::Count(FrameWriter& out) {
  const auto count = [&](Series& series, const MetricDesc& metric, std::string_view outcome, uint64_t value) {
    out.DeclareAndSet(series, metric, {}, {{"gpulens.outcome", outcome}}, value);
  };
  if (sender_) {
    const BatchSender::Counts counts = sender_->counts();
    count(batches_[0], kSelfNcclBatches, "sent", counts.sent);
    count(batches_[1], kSelfNcclBatches, "failed", counts.failed);
    count(batches_[2], kSelfNcclBatches, "dropped", counts.dropped);
    return;
  }
  if (joins_) {
    count(batches_[3], kSelfNcclBatches, "received", received_);
    count(batches_[4], kSelfNcclBatches, "refused", env_.collectives->refused());
  }
  const collectives::DiagnosisCounts& counts = diagnosis_->counts();
  count(samples_[0], kSelfNcclSamples, "taken", counts.samples);
  count(samples_[1], kSelfNcclSamples, "duplicate", counts.duplicate);
  count(samples_[2], kSelfNcclSamples, "late", counts.late);
  count(samples_[3], kSelfNcclSamples, "invalid", counts.invalid);
  count(samples_[4], kSelfNcclSamples, "ambiguous", counts.ambiguous);
}

}  // namespace gpulens
