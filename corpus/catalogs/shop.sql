-- A shop in which everybody may see everything: answers must be the engine's own.

CREATE TABLE customers (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    city TEXT,
    joined_on TEXT
);
INSERT INTO customers VALUES
    (1, 'Ana', 'Oslo', '2024-01-10'), (2, 'Bo', 'Rome', '2024-03-02'), (3, 'Cy', NULL, '2025-07-19'),
    (4, 'Di', 'Oslo', '2025-08-01'), (5, 'Ed', 'Bern', '2026-01-01');

CREATE TABLE products (
    id INTEGER PRIMARY KEY,
    sku TEXT UNIQUE,
    title TEXT,
    price REAL,
    category TEXT COLLATE NOCASE,
    attributes TEXT
);
INSERT INTO products VALUES
    (1, 'A-1', 'Lamp', 19.5, 'Home', '{"color":"red","sizes":[1,2]}'),
    (2, 'A-2', 'Desk', 120.0, 'home', '{"color":"oak"}'),
    (3, 'B-1', 'Pen', 1.25, 'Office', '{"sizes":[]}'),
    (4, 'B-2', 'Ink', 4.0, 'office', NULL),
    (5, 'C-1', 'Globe', 75.0, NULL, '{}');

CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    customer_id INTEGER REFERENCES customers (id),
    placed_on TEXT,
    status TEXT
);
INSERT INTO orders VALUES
    (1, 1, '2026-01-01', 'paid'), (2, 1, '2026-01-15', 'open'), (3, 2, '2026-02-01', 'paid'),
    (4, 4, '2026-02-10', 'void'), (5, NULL, '2026-03-01', 'open');

CREATE TABLE lines (
    order_id INTEGER NOT NULL,
    product_id INTEGER NOT NULL,
    quantity INTEGER NOT NULL,
    PRIMARY KEY (order_id, product_id)
) WITHOUT ROWID;
INSERT INTO lines VALUES (1, 1, 2), (1, 3, 10), (2, 2, 1), (3, 1, 1), (3, 4, 3), (4, 5, 1);

CREATE TABLE employees (
    id INTEGER PRIMARY KEY,
    name TEXT,
    boss_id INTEGER
);
INSERT INTO employees VALUES (1, 'Root', NULL), (2, 'Left', 1), (3, 'Right', 1), (4, 'Leaf', 2);

CREATE TABLE "Mixed Case" (
    "Order" INTEGER,
    "two words" TEXT,
    `back``tick` TEXT,
    [brack et] TEXT
);
INSERT INTO "Mixed Case" VALUES (1, 'a', 'b', 'c'), (2, 'd', NULL, 'f');

CREATE TABLE samples (
    id INTEGER PRIMARY KEY,
    bytes BLOB,
    anything,
    ratio REAL
);
INSERT INTO samples VALUES (1, x'00ff', 9007199254740993, 0.1), (2, NULL, 'text', 1e300), (3, x'', 2.5, -0.0);

CREATE VIEW order_totals AS
    SELECT o.id AS order_id, o.customer_id, sum(l.quantity * p.price) AS total
    FROM orders AS o JOIN lines AS l ON l.order_id = o.id JOIN products AS p ON p.id = l.product_id
    GROUP BY o.id, o.customer_id;
CREATE VIEW cities (place) AS SELECT DISTINCT city FROM customers WHERE city IS NOT NULL;
