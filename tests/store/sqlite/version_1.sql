-- A file of the first version, as released. Never changed.

CREATE TABLE responses (
    number INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    ended_at REAL,
    status TEXT NOT NULL,
    previous_id TEXT,
    conversation_id TEXT,
    is_background INTEGER NOT NULL,
    dropped INTEGER NOT NULL DEFAULT 0,
    request BLOB NOT NULL,
    response BLOB NOT NULL,
    verdict BLOB NOT NULL DEFAULT x''
);
CREATE UNIQUE INDEX responses_by_id ON responses (tenant, id);
CREATE INDEX responses_by_end ON responses (ended_at);
CREATE INDEX responses_by_previous ON responses (tenant, previous_id);

CREATE TABLE items (
    number INTEGER PRIMARY KEY,
    response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
    is_output INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX items_by_response ON items (response, is_output);
CREATE INDEX items_by_id ON items (tenant, id);

CREATE TABLE events (
    number INTEGER PRIMARY KEY,
    response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
    last INTEGER NOT NULL,
    count INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX events_by_response ON events (response, last, count);

CREATE TABLE traces (
    number INTEGER PRIMARY KEY,
    response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
    data BLOB NOT NULL
);
CREATE INDEX traces_by_response ON traces (response);

CREATE TABLE memories (
    number INTEGER PRIMARY KEY,
    response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    data BLOB NOT NULL
);
CREATE UNIQUE INDEX memories_by_key ON memories (tenant, key);
CREATE INDEX memories_by_response ON memories (response);

CREATE TABLE conversations (
    number INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at REAL NOT NULL,
    metadata BLOB NOT NULL
);
CREATE UNIQUE INDEX conversations_by_id ON conversations (tenant, id);
CREATE INDEX conversations_by_change ON conversations (changed_at);

CREATE TABLE conversation_items (
    number INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX conversation_items_in_order ON conversation_items (conversation, number, id);
CREATE INDEX conversation_items_by_id ON conversation_items (tenant, id);

PRAGMA application_id = 1346719315;
PRAGMA user_version = 1;
INSERT INTO responses VALUES (1, 'local', 'resp_1', 7, 8.5, 'completed', NULL, 'conv_1', 0, 0, x'7b7d', x'7b7d', x'');
INSERT INTO responses VALUES (2, 'local', 'resp_2', 9, NULL, 'in_progress', 'resp_1', NULL, 1, 0, x'7b7d', x'7b7d', x'');
INSERT INTO items VALUES (1, 1, 0, 'local', 'in_1', x'7b226964223a22696e5f31222c2274657874223a22227d');
INSERT INTO items VALUES (2, 1, 1, 'local', 'out_1', x'7b226964223a226f75745f31222c2274657874223a22227d');
INSERT INTO events VALUES (1, 1, 1, 2, x'00929300cb4059000000000000c4457b2274797065223a22726573706f6e73652e6f75747075745f746578742e64656c7461222c2273657175656e63655f6e756d626572223a302c2264656c7461223a2278227d9301cb4059400000000000c4457b2274797065223a22726573706f6e73652e6f75747075745f746578742e64656c7461222c2273657175656e63655f6e756d626572223a312c2264656c7461223a2278227d');
INSERT INTO traces VALUES (1, 1, x'009194a472656164cb4059c00000000000c40003');
INSERT INTO memories VALUES (1, 1, 'local', 'rs_1', x'736563726574');
INSERT INTO conversations VALUES (1, 'local', 'conv_1', 3, 8.5, x'7b7d');
INSERT INTO conversation_items VALUES (1, 1, 'local', 'in_1', x'7b226964223a22696e5f31222c2274657874223a22227d');
INSERT INTO conversation_items VALUES (2, 1, 'local', 'out_1', x'7b226964223a226f75745f31222c2274657874223a22227d');
