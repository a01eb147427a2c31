"""RingKernelMessage and @message: the fields of gpulens.ring.Message, and their bytes as MessagePack."""
import dataclasses
import datetime
import weakref
from typing import Any, Callable, Optional, Type, TypeVar, overload
from uuid import UUID

from ...ring.messages import Message, like_dataclass
from ...ring.messages import message as _message
from ._msgpack import pack, unpack
from .exceptions import MessageDeserializationError, MessageSerializationError

__all__ = ["RingKernelMessage", "deserialize_message", "get_message_type", "message"]

T = TypeVar("T")
_UUID, _TYPE = "__uuid_bin__", "__type__"
# Classes decorated with @message, by name; of equal names the last.
_types: "weakref.WeakValueDictionary[str, type]" = weakref.WeakValueDictionary()


def _encode(value: Any) -> Any:
    if isinstance(value, UUID):
        return {_UUID: value.bytes}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {**{field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, _TYPE: type(value).__name__}
    raise TypeError(f"a {type(value).__name__} has no form in MessagePack")


def _decode(inner: dict) -> Any:
    """Returns the value of a map inside a message: a UUID, a message, or the map."""
    if set(inner) == {_UUID}:
        return UUID(bytes=inner[_UUID])
    kind = get_message_type(inner.get(_TYPE))
    return inner if kind is None else _message_of(kind, inner)


def _message_of(cls: Type[T], fields: dict) -> T:
    known = {field.name for field in dataclasses.fields(cls)}
    return cls(**{name: value for name, value in fields.items() if name in known})


def _fields_in(data: bytes) -> dict:
    fields = unpack(data, _decode)
    if not isinstance(fields, dict):
        raise ValueError(f"a {type(fields).__name__} is no message")
    return fields


def _serialize(self: Any) -> bytes:
    """Returns the message as MessagePack. Raises MessageSerializationError for a field of another type than
    None, numbers, text, bytes, list, tuple, dict, UUID, date and time (as ISO text) and messages, and
    beyond 64 MiB."""
    try:
        return pack(_encode(self), _encode)
    except Exception as error:
        raise MessageSerializationError(type(self), error) from error


def _deserialize(cls: Type[T], data: bytes) -> T:
    """Returns the message in the bytes; fields that the class does not have are ignored. Messages inside it
    become objects of their classes where these are decorated with @message in this program.

    Only data is read, so bytes from others are safe: no code runs but that of the message classes, and
    bytes beyond 64 MiB or a depth of 64 are refused.

    Raises MessageDeserializationError, whose text has the reason, for other bytes and missing fields.
    """
    try:
        return _message_of(cls, _fields_in(data))
    except Exception as error:
        raise MessageDeserializationError(cls, error) from error


def get_message_type(name: str) -> Optional[type]:
    """Returns the class of this name that was decorated with @message; None where there is none."""
    return _types.get(name) if isinstance(name, str) else None


def deserialize_message(data: bytes) -> Any:
    """Returns the message in the bytes, of the class that they name, as its deserialize() does.

    Raises MessageDeserializationError for other bytes, and for a class that is not decorated with @message
    in this program.
    """
    try:
        fields = _fields_in(data)
        kind = get_message_type(fields.get(_TYPE))
        if kind is None:
            raise ValueError(f"no class {fields.get(_TYPE)!r} is decorated with @message")
        return _message_of(kind, fields)
    except Exception as error:
        raise MessageDeserializationError(RingKernelMessage, error) from error


@dataclasses.dataclass
class RingKernelMessage(Message):
    """Base class of messages, with message_id, priority (0 to 255, default 128) and correlation_id."""

    serialize = _serialize
    deserialize = classmethod(_deserialize)


@overload
def message(cls: Type[T]) -> Type[T]: ...


@overload
def message(cls: None = None) -> Callable[[Type[T]], Type[T]]: ...


@like_dataclass()
def message(cls: Optional[Type[T]] = None) -> Any:
    """Makes a class a dataclass with the fields and methods of RingKernelMessage.

        @message
        class Request:
            data: int

        Request(data=1, priority=200).reply(data=2)

    message_id (a UUID), priority (0 to 255, default 128; others raise ValueError) and correlation_id
    follow the class's own fields. Type checkers see only the class's own fields; derive from
    RingKernelMessage to make the others visible to them. deserialize_message() finds the class by its name.
    """

    def decorate(kind: Type[T]) -> Type[T]:
        made = _message(kind)
        if not hasattr(made, "serialize"):
            made.serialize = _serialize
            made.deserialize = classmethod(_deserialize)
        _types[made.__name__] = made
        return made

    return decorate if cls is None else decorate(cls)
