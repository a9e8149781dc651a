-- Something to look at. Put your own tables here.
CREATE TABLE customers (
    id int PRIMARY KEY,
    name text NOT NULL,
    email text,
    city text
);
CREATE TABLE orders (
    id int PRIMARY KEY,
    customer_id int NOT NULL REFERENCES customers,
    placed_on date NOT NULL,
    total numeric(10, 2) NOT NULL
);
INSERT INTO customers VALUES
    (1, 'Ada Brandt', 'ada@acme.example', 'Hamburg'),
    (2, 'Elif Yilmaz', 'elif@globex.example', 'Izmir');
INSERT INTO orders VALUES
    (1, 1, '2026-01-07', 120.50),
    (2, 1, '2026-02-11', 80.00),
    (3, 2, '2026-02-12', 44.90);
