//===- StreamImpl.h - the one implementation of Stream -----------*- C++ -*-===//
#pragma once

#include "Fork.h"
#include "StreamCore.h"

namespace tilewright {

class StreamImpl final : public Stream {
public:
  StreamImpl(int64_t id, int priority);
  ~StreamImpl() override;

  int64_t id() const override { return core->id; }
  int priority() const override { return core->priority; }
  void enqueue(Task task, bool inlineIfIdle) override;
  void synchronize() override;
  bool query() const override;
  void record(Event &event) override;
  void wait(const Event &event) override;
  void fail(std::exception_ptr error) override;
  uint64_t submitted() const override { return core->submitted.load(std::memory_order_acquire); }
  uint64_t completed() const override { return core->completed.load(std::memory_order_acquire); }
  void waitUntil(uint64_t ticket) const override;
  std::exception_ptr takeError() override;

  const std::shared_ptr<StreamCore> core;

private:
  ForkHooks fork;
};

} // namespace tilewright
