# SPDX-License-Identifier: BSD-3-Clause
"""Types of data that can be sent, and of destinations."""
from typing import TYPE_CHECKING, Any, Sequence, Union

ServiceId = Union[int, str]
"""An ID, or a name: id_from_name() is done on the way."""

if TYPE_CHECKING:
    from typing_extensions import Buffer as Bytes

    Data = Union[Bytes, Sequence[Bytes]]
else:
    Data = Any
