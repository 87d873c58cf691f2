"""A seeded store of N messages: the same bytes of text for the same seed, cached until the library changes."""

import getpass
import hashlib
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import hermes_store
from hermes_store import Settings, Store, Unit
from hermes_store.clock import SystemClock
from hermes_store.database import Driver

LONG = "long"  # a tenth of all messages
THOUSAND = "thousand"  # about 1,000 messages
HUNDRED = "hundred"  # about 100 messages
TARGET = "target"  # what the writing cases append to

RARE_WORD = "quokka"
FREQUENT_WORD = "deploy"
PHRASE = "rolling restart plan"
CJK_TWO = "部署"
CJK_TWO_RARE = "秃鹫"
CJK_THREE = "向量库"

Draft = dict[str, Any]
"""The keyword arguments of one append."""

_CHUNK = 1000
_EPOCH = 1_772_000_000.0
_SOURCES = ("cli", "telegram", "discord", "cron")
_MODELS = ("opus-large", "sonnet-medium", "haiku-small")
_TOOLS = ("terminal", "read_file", "web_search", "patch")
_ENGLISH_TEXT = (
    "the of and to in a is for on with it that this we can please check file error test build server branch merge "
    "deploy restart config database index query session message token cost model agent tool search compress archive "
    "route gateway reply queue timeout retry lock commit rollback schema version migrate backup restore export import "
    "path folder python module function class value result output input log metric latency budget docker kubernetes "
    "cluster node container image registry secret volume network proxy certificate domain cache worker schedule plan"
)
_SYLLABLES = ("ka", "lo", "mi", "ren", "tu", "sar", "vel", "qui", "dor", "pha", "ex", "ion", "bra", "ne", "sto", "wyn")
_CHINESE_TEXT = (
    "我们 需要 检查 服务器 日志 数据库 部署 方案 今天 讨论 测试 结果 失败 成功 重新 启动 配置 文件 版本 升级 "
    "备份 恢复 会话 消息 搜索 索引 压缩 模型 成本 预算 用户 网关 回复 队列 超时 重试 事务 提交 回滚 迁移 分支 "
    "合并 代码 函数 模块 请 帮我 看看 为什么 这个 那个 问题 怎么 解决 谢谢 好的 没有 已经 完成 继续"
)
_ENGLISH = _ENGLISH_TEXT.split()
_CHINESE = _CHINESE_TEXT.split()


# -- texts --------------------------------------------------------------------------------------------------


def _english(rng: random.Random, words: int) -> str:
    # Squared, so that the first words are frequent; every tenth word is out of a large vocabulary.
    chosen = (
        "".join(rng.choices(_SYLLABLES, k=3))
        if rng.random() < 0.1
        else _ENGLISH[int(rng.random() ** 2 * len(_ENGLISH))]
        for _ in range(words)
    )
    return " ".join(chosen).capitalize() + "."


def _chinese(rng: random.Random, words: int) -> str:
    return "".join(rng.choices(_CHINESE, k=words)) + "。"


def _prose(rng: random.Random, words: int) -> str:
    kind = rng.random()
    if kind < 0.55:
        return _english(rng, words)
    if kind < 0.85:
        return _chinese(rng, words)
    return f"{_english(rng, words // 2)}\n\n{_chinese(rng, words // 2)}"


def _tool_output(rng: random.Random) -> str:
    lines = [f"{rng.randrange(10**6):06d} {_english(rng, 8)}" for _ in range(rng.randrange(2, 14))]
    return json.dumps({"exit_code": rng.choice((0, 0, 0, 1)), "output": "\n".join(lines), "note": _chinese(rng, 4)})


def conversation(rng: random.Random) -> Iterator[Draft]:
    """Turns without end: a question, perhaps some tool calls with their results, an answer."""
    while True:
        question: Draft = {"role": "user", "content": _prose(rng, rng.randrange(4, 40))}
        if rng.random() < 0.03:
            question["content"] = [{"type": "text", "text": _english(rng, 12)}, {"type": "image_url", "image_url": "x"}]
        yield question
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            call_id = f"call_{rng.randrange(16**8):08x}"
            name = rng.choice(_TOOLS)
            arguments = json.dumps({"query": _prose(rng, 6), "limit": rng.randrange(50)})
            yield {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}],
                "finish_reason": "tool_calls",
                "reasoning": _english(rng, rng.randrange(10, 60)),
            }
            yield {"role": "tool", "content": _tool_output(rng), "tool_call_id": call_id, "tool_name": name}
        answer: Draft = {"role": "assistant", "content": _prose(rng, rng.randrange(10, 150)), "finish_reason": "stop"}
        if rng.random() < 0.4:
            answer["reasoning"] = answer["reasoning_content"] = _prose(rng, rng.randrange(10, 60))
        if rng.random() < 0.05:
            answer["display_metadata"] = {"model": rng.choice(_MODELS), "seconds": rng.randrange(90)}
        yield answer


def drafts(seed: int, count: int) -> list[Draft]:
    """The first messages of a conversation of its own."""
    return list(islice(conversation(random.Random(seed)), count))


# -- the plan of a store ------------------------------------------------------------------------------------


@dataclass
class _Plan:
    """One session: how many messages it gets, and what it is created with."""

    id: str
    size: int
    fields: dict[str, Any] = field(default_factory=dict)
    source: str = "cli"
    continues: str | None = None


class _SeedClock(SystemClock):
    """Seven seconds pass with every message."""

    def __init__(self) -> None:
        self.seconds = _EPOCH
        self.now = lambda: self.seconds


Event = Callable[[Unit], object]


def _plans(rng: random.Random, messages: int) -> tuple[list[_Plan], list[_Plan]]:
    """The sessions that are written side by side, the long one first; and a compression chain for the end."""
    sizes = {LONG: messages // 10, THOUSAND: min(1000, messages // 5), HUNDRED: min(100, messages // 10), TARGET: 10}
    segment = max(2, messages // 200)
    chain = [
        _Plan(f"chain-{number}", segment, {"parent_session_id": f"chain-{number - 1}"} if number else {})
        for number in range(4)
    ]
    for earlier, later in pairwise(chain):
        later.continues = earlier.id
    left = messages - sum(sizes.values()) - segment * len(chain)
    plans = [_Plan(session_id, size) for session_id, size in sizes.items()]
    number = 0
    while left > 0:
        plan = _Plan(f"session-{number:05d}", min(left, rng.randrange(2, 80)), source=rng.choice(_SOURCES))
        if number % 12 == 7:
            plan.fields = {"parent_session_id": LONG, "model_config": {"_branched_from": LONG}}
        elif number % 12 == 11:
            plan.source = "tool"
            plan.fields = {"parent_session_id": LONG, "model_config": {"_delegate_from": LONG}}
        plans.append(plan)
        left -= plan.size
        number += 1
    return plans, chain


def _create(plan: _Plan, rng: random.Random) -> Event:
    fields = {"model": rng.choice(_MODELS), "system_prompt": _english(rng, 100), "cwd": "/srv/agent", **plan.fields}
    return lambda unit: unit.create_session(plan.id, plan.source, **fields)


def _end(session_id: str, reason: str) -> Event:
    return lambda unit: unit.end_session(session_id, reason)


def _events(messages: int, seed: int, clock: _SeedClock) -> Iterator[Event]:
    rng = random.Random(seed)
    side_by_side, chain = _plans(rng, messages)
    number = 0

    def append(plan: _Plan, talk: Iterator[Draft]) -> Event:
        nonlocal number
        draft = _planted(next(talk), number, messages)
        number += 1

        def event(unit: Unit) -> None:
            clock.seconds += 7.0
            unit.append(plan.id, timestamp=clock.seconds, **draft)

        return event

    # The long session goes on beside all the others; three of these are live at a time.
    running: list[tuple[_Plan, Iterator[Draft], list[int]]] = []
    waiting = iter(side_by_side)
    width = 4
    while True:
        while len(running) < width and (plan := next(waiting, None)) is not None:
            yield _create(plan, rng)
            running.append((plan, conversation(rng), [plan.size]))
        if not running:
            break
        position = 0 if running[0][0].id == LONG and rng.random() < 0.1 else rng.randrange(len(running))
        plan, talk, left = running[position]
        yield append(plan, talk)
        left[0] -= 1
        if left[0] == 0:
            del running[position]
            if plan.id.startswith("session-") and rng.random() < 0.7:
                yield _end(plan.id, "user_exit")
    for plan in chain:
        if plan.continues is not None:
            yield _end(plan.continues, "compression")
        yield _create(plan, rng)
        talk = conversation(rng)
        for _ in range(plan.size):
            yield append(plan, talk)


def _planted(draft: Draft, number: int, messages: int) -> Draft:
    """Words whose frequency the search cases rely on, put where both indexes see them."""
    text = draft["content"]
    if draft["role"] == "tool" or not isinstance(text, str):
        return draft
    words = []
    if number % max(1, messages // 20) < 2:
        words.append(RARE_WORD)
    if number % 100 < 2:
        words.append(PHRASE)
    if number % 3 == 0:
        words.append(FREQUENT_WORD)
    if number % 200 < 3:
        words.append(CJK_THREE)
    if number % max(1, messages // 20) < 3:
        words.append(CJK_TWO_RARE)
    return {**draft, "content": " ".join((text, *words))} if words else draft


# -- the file -----------------------------------------------------------------------------------------------


def seeded_store(messages: int, seed: int, driver: Driver, settings: Settings) -> Path:
    """The closed file of such a store; made anew when the library, the generator or the driver has changed."""
    mode = settings.journal_mode.value
    kind = f"{messages}-{seed}-{driver.name}-{driver.version_text}-{mode}"
    folder = Path(tempfile.gettempdir()) / f"hermes-store-benchmarks-{getpass.getuser()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"{kind}-{_library_fingerprint()}.db"
    if file.exists():
        return file
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / "state.db"
        _fill(made, messages, seed, settings)
        for outdated in folder.glob(f"{kind}-*.db"):
            outdated.unlink(missing_ok=True)
        made.replace(file)
    return file


def _fill(path: Path, messages: int, seed: int, settings: Settings) -> None:
    clock = _SeedClock()
    with Store.open(path, settings=settings, clock=clock) as store:
        events = _events(messages, seed, clock)
        while chunk := list(islice(events, _CHUNK)):
            with store.transaction() as unit:
                for event in chunk:
                    event(unit)


def _library_fingerprint() -> str:
    digest = hashlib.sha256()
    package = Path(hermes_store.__file__).parent
    for source in (*sorted(package.rglob("*.py")), Path(__file__)):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def copy_of(source: Path, target: Path) -> Path:
    """A copy on the disk, not only in the cache: the first COMMIT of a run must not pay for it.

    Only for files that nobody has open: closing a descriptor drops SQLite's locks.
    """
    log = source.with_name(source.name + "-wal")
    if log.exists():
        raise RuntimeError(f"{log} exists: {source} is in use, or was not closed")
    shutil.copyfile(source, target)
    for path, flags in ((target, os.O_RDWR), (target.parent, os.O_RDONLY)):
        descriptor = os.open(path, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return target
