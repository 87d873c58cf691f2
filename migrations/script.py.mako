<%
    def quoted(value):
        return f'"{value}"' if isinstance(value, str) else repr(value)

    summary = message.strip().rstrip(".")
    summary = summary[:1].upper() + summary[1:]
    used = [line for line in (imports or "").splitlines() if line]
    if not upgrades:
        used = ["from hermes_store.schema.operations import irreversible, online_only"]
%>\
"""${summary}.

Purpose: what a file has after this revision that it had not before.
Stamp: none; this revision belongs to the package alone.
Cost on a large file: quick, or how long per million messages.
Rule: its id in docs/behaviour.
Runs again: yes; say which shape it checks first.
Downgrade: what it restores, or why it cannot.
"""

from alembic import op

${"\n".join(used)}

revision = ${quoted(up_revision)}
down_revision = ${quoted(down_revision)}
branch_labels = ${quoted(branch_labels)}
depends_on = ${quoted(depends_on)}


def upgrade() -> None:
    """Bring the file one step up."""
    ${upgrades if upgrades else "online_only(op, revision)"}


def downgrade() -> None:
    """Take the step back."""
    ${downgrades if downgrades else 'irreversible(revision, "say what is lost")'}
