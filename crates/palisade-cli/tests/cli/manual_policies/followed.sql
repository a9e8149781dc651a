-- Customers of two tenants, and what refers to them.
CREATE TABLE staff (id INTEGER PRIMARY KEY) STRICT;
CREATE TABLE customers (id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL) STRICT;
CREATE TABLE tickets (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id),
  subject TEXT NOT NULL
) STRICT;

INSERT INTO staff VALUES (1);
INSERT INTO customers VALUES (1, 1), (2, 2);
INSERT INTO tickets VALUES (1, 1, 'Cannot sign in'), (3, 2, 'Export stops');
