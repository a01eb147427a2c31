#include "cli/slurm/record_sender.h"

#include <utility>

namespace gpulens {

Status RecordSender::Add(Event record) {
  if (!failed_) return failed_;
  batch_.list.push_back(std::move(record));
  return batch_.list.size() < kBatch ? Ok() : Send();
}

Status RecordSender::Send() {
  if (!failed_ || batch_.list.empty()) return failed_;
  batch_.resource = resource_;
  const size_t count = batch_.list.size();
  failed_ = sink_.Write(batch_);
  batch_.list.clear();
  if (failed_) sent_ += count;
  return failed_;
}

}  // namespace gpulens
